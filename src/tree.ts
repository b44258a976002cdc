/** Plain trees: nested objects and arrays whose leaves are not plain objects. State, batches and metrics are trees. */
export type Tree<T> = T | { readonly [key: string]: Tree<T> } | readonly Tree<T>[];

type Branch<T> = { readonly [key: string]: Tree<T> } | readonly Tree<T>[];

function isBranch<T>(node: Tree<T>): node is Branch<T> {
  if (Array.isArray(node)) return true;
  if (typeof node !== 'object' || node === null) return false;
  const prototype = Object.getPrototypeOf(node);
  return prototype === Object.prototype || prototype === null;
}

/** Leaves in depth-first order with their paths; keys joined by `/`, since parameter names contain dots. */
export function flattenTree<T>(tree: Tree<T>, prefix = ''): [path: string, leaf: T][] {
  if (!isBranch(tree)) return [[prefix, tree as T]];
  const out: [string, T][] = [];
  for (const [key, node] of Object.entries(tree)) {
    out.push(...flattenTree(node as Tree<T>, prefix === '' ? key : `${prefix}/${key}`));
  }
  return out;
}

/** Leaves in depth-first order. */
export function treeLeaves<T>(tree: Tree<T>): T[] {
  const out: T[] = [];
  const visit = (node: Tree<T>) => {
    if (!isBranch(node)) out.push(node as T);
    else for (const child of Object.values(node)) visit(child as Tree<T>);
  };
  visit(tree);
  return out;
}

/** Same structure, each leaf mapped. */
export function mapTree<T, U>(tree: Tree<T>, map: (leaf: T, path: string) => U, prefix = ''): Tree<U> {
  if (!isBranch(tree)) return map(tree as T, prefix);
  const at = (key: string | number) => (prefix === '' ? String(key) : `${prefix}/${key}`);
  if (Array.isArray(tree)) return tree.map((node, i) => mapTree(node as Tree<T>, map, at(i)));
  return Object.fromEntries(Object.entries(tree).map(([key, node]) => [key, mapTree(node as Tree<T>, map, at(key))]));
}

/** A tree of the same structure with the given leaves, in the order of `treeLeaves`. */
export function unflattenTree<T, U>(structure: Tree<T>, leaves: readonly U[]): Tree<U> {
  let next = 0;
  return mapTree(structure, () => leaves[next++]!);
}
