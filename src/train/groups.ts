import { AlambicError } from '../errors.ts';
import { depthGroupOf } from '../nn/describe.ts';
import type { Mode, ModelDescription, ParameterSpec } from '../nn/module.ts';
import type { GroupRow, ParameterInfo, ParameterTree, Position, Strategy } from '../plugin-host/contract.ts';

/** A strategy of a stage, with the name it is used by. */
export interface NamedStrategy {
  readonly name: string;
  readonly strategy: Strategy;
}

/** What the step does with one parameter in the present phase. */
export interface Assignment {
  readonly group: string;
  readonly trainable: boolean;
  /** Multiplies the stage's rate. */
  readonly rate: number;
  readonly decay: boolean;
}

/** Who trains now, and how the student's parts run. */
export interface Plan {
  readonly assignments: ReadonlyMap<string, Assignment>;
  /** Distinct groups in the order of the parameters, each with its rate multiplier. */
  readonly groups: readonly { readonly name: string; readonly rate: number }[];
  readonly modes: Readonly<Record<string, Mode>>;
}

/** Group of all parameters where no strategy plans any. */
const EVERYTHING = 'all';

/** The parameters that a stage could train: the student's, and those of the strategies' own modules. */
export function parameterTree(student: ModelDescription, own: readonly ParameterSpec[]): ParameterTree {
  const info = (spec: ParameterSpec, depthGroup: string): ParameterInfo => ({
    name: spec.name,
    shape: spec.shape,
    role: spec.role,
    depthGroup,
  });
  return {
    parameters: [
      ...student.parameters.map((spec) => info(spec, depthGroupOf(student, spec.name))),
      ...own.map((spec) => info(spec, 'strategy')),
    ],
    depthGroups: student.depthGroups.map((group) => group.name),
  };
}

/**
 * Combines the plans of a stage's strategies: trainable by AND, rates multiply, decay by AND. A parameter that a plan says nothing of
 * is an error, since it would silently train or not.
 */
export function planGroups(tree: ParameterTree, strategies: readonly NamedStrategy[], position: Position): Plan {
  const plans = strategies.flatMap(({ name, strategy }) => {
    const plan = strategy.groups?.(tree, position);
    return plan === undefined ? [] : [{ name, plan }];
  });
  const assignments = new Map<string, Assignment>();
  for (const parameter of tree.parameters) {
    // A strategy's own modules always train: plans speak of the student.
    if (parameter.depthGroup === 'strategy') {
      assignments.set(parameter.name, { group: 'strategy', trainable: true, rate: 1, decay: true });
      continue;
    }
    const labels: string[] = [];
    let trainable = true;
    let rate = 1;
    let decay = true;
    for (const { name, plan } of plans) {
      const assignment = plan.assign(parameter);
      if (assignment === undefined) {
        throw new AlambicError(
          'UNGROUPED_PARAMETER',
          `no group of strategy "${name}" matches parameter ${parameter.name}`,
          {
            hint: 'Every parameter must be in exactly one group; add a rule that matches it, or a last rule that matches the rest.',
            plugin: name,
          },
        );
      }
      labels.push(assignment.group);
      trainable &&= assignment.trainable ?? true;
      rate *= assignment.rate ?? 1;
      decay &&= assignment.decay ?? true;
    }
    const group = labels.length === 0 ? EVERYTHING : [...new Set(labels)].join(' ');
    assignments.set(parameter.name, { group, trainable, rate, decay });
  }
  if (![...assignments.values()].some((assignment) => assignment.trainable)) {
    throw new AlambicError('NOTHING_TRAINS', 'no parameter is trainable in this phase', {
      hint: 'Check the freezing rules: at least one group must train.',
    });
  }
  const groups = new Map<string, { name: string; rate: number }>();
  for (const { group, rate, trainable } of assignments.values()) {
    // A frozen parameter may lie in a group of any rate: it is not updated.
    if (!trainable) continue;
    const known = groups.get(group);
    if (known !== undefined && known.rate !== rate) {
      throw new AlambicError(
        'GROUP_RATES',
        `group "${group}" has parameters with the rates ${known.rate} and ${rate}`,
        {
          hint: 'Give parameters with different rates different group names.',
        },
      );
    }
    groups.set(group, { name: group, rate });
  }
  return {
    assignments,
    groups: [...groups.values()],
    modes: Object.assign({}, ...plans.map(({ plan }) => plan.modes ?? {})) as Record<string, Mode>,
  };
}

/** The mode of a parameter's sub-tree: the longest prefix that matches, else the stage's. */
function modeOf(plan: Plan, name: string): Mode {
  let mode: Mode = 'train';
  let length = -1;
  for (const [prefix, candidate] of Object.entries(plan.modes)) {
    if ((prefix === '' || name === prefix || name.startsWith(`${prefix}.`)) && prefix.length > length) {
      mode = candidate;
      length = prefix.length;
    }
  }
  return mode;
}

/** The table of groups that is shown before training. `decayOf` gives the decay that the optimizer applies to a parameter. */
export function groupRows(
  tree: ParameterTree,
  plan: Plan,
  baseRate: number,
  decayOf: (parameter: ParameterInfo, decay: boolean) => number,
): GroupRow[] {
  const rows = new Map<string, GroupRow>();
  const decays = tree.parameters.some(
    (parameter) => decayOf(parameter, plan.assignments.get(parameter.name)!.decay) > 0,
  );
  for (const parameter of tree.parameters) {
    const assignment = plan.assignments.get(parameter.name)!;
    const decay = assignment.trainable ? decayOf(parameter, assignment.decay) : 0;
    const rate = assignment.trainable ? baseRate * assignment.rate : 0;
    const mode = modeOf(plan, parameter.name);
    // Where no strategy names groups, what tells the rows apart is decay.
    const unnamed = decay > 0 ? 'weights' : 'biases, norms';
    const group = assignment.group === EVERYTHING && decays ? unnamed : assignment.group;
    const key = `${group}|${assignment.trainable}|${decay}|${mode}`;
    const size = parameter.shape.reduce((a, b) => a * b, 1);
    const row = rows.get(key);
    rows.set(key, {
      group,
      parameters: (row?.parameters ?? 0) + size,
      trainable: assignment.trainable,
      rate,
      decay,
      mode,
    });
  }
  return [...rows.values()];
}
