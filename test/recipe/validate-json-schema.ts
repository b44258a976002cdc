type Schema = Readonly<Record<string, unknown>>;

const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  array: (value) => Array.isArray(value),
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
};

/** Whether a value fits a JSON Schema (draft 7), for the keywords that ours uses; any other keyword is an error. */
export function fitsSchema(value: unknown, schema: Schema, root: Schema = schema): boolean {
  const fits = (part: unknown, inner: unknown) =>
    typeof inner === 'boolean' ? inner : fitsSchema(part, inner as Schema, root);
  const isMap = TYPES['object']!(value);
  const map = (isMap ? value : {}) as Record<string, unknown>;
  const list = Array.isArray(value) ? (value as unknown[]) : [];
  const size = typeof value === 'number' ? value : undefined;
  const properties = (schema['properties'] ?? {}) as Record<string, unknown>;
  const ignored = ['$schema', 'title', 'description', 'default', 'definitions'];
  return Object.entries(schema).every(([keyword, rule]) => {
    if (ignored.includes(keyword)) return true;
    const schemas = rule as readonly unknown[];
    const limit = rule as number;
    switch (keyword) {
      case '$ref':
        return fits(value, (root['definitions'] as Schema)[String(rule).replace('#/definitions/', '')]);
      case 'type':
        return TYPES[rule as string]!(value);
      case 'const':
        return value === rule;
      case 'enum':
        return schemas.includes(value);
      case 'anyOf':
        return schemas.some((inner) => fits(value, inner));
      case 'allOf':
        return schemas.every((inner) => fits(value, inner));
      case 'properties':
        return Object.entries(properties).every(([key, inner]) => !(key in map) || fits(map[key], inner));
      case 'required':
        return !isMap || schemas.every((key) => (key as string) in map);
      case 'additionalProperties':
        return Object.entries(map).every(([key, part]) => key in properties || fits(part, rule));
      case 'propertyNames':
        return Object.keys(map).every((key) => fits(key, rule));
      case 'items':
        return list.every((part, i) =>
          Array.isArray(rule) ? i >= rule.length || fits(part, rule[i]) : fits(part, rule),
        );
      case 'additionalItems':
        return !Array.isArray(schema['items']) || list.slice(schema['items'].length).every((part) => fits(part, rule));
      case 'minItems':
        return !Array.isArray(value) || list.length >= limit;
      case 'maxItems':
        return !Array.isArray(value) || list.length <= limit;
      case 'minLength':
        return typeof value !== 'string' || value.length >= limit;
      case 'pattern':
        return typeof value !== 'string' || new RegExp(rule as string).test(value);
      case 'minimum':
        return size === undefined || size >= limit;
      case 'exclusiveMinimum':
        return size === undefined || size > limit;
      case 'maximum':
        return size === undefined || size <= limit;
      case 'exclusiveMaximum':
        return size === undefined || size < limit;
      default:
        throw new Error(`the schema uses "${keyword}", which is not known here`);
    }
  });
}
