import { inject, injectable } from 'inversify';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { AlambicError } from '../../src/errors.ts';
import type { Listener, Loss, Strategy } from '../../src/plugin-host/contract.ts';
import { definePlugin } from '../../src/plugin-host/define.ts';
import { PluginHost } from '../../src/plugin-host/host.ts';
import { type CreatePlugin, TOKEN } from '../../src/plugin-host/tokens.ts';
import { type Use, useOf } from '../../src/plugin-host/use.ts';
import { errorFacts, rejectionOf, thrownBy } from './error-facts.ts';

interface ScaleOptions {
  readonly factor: number;
}

@injectable()
class Scale implements Loss {
  readonly #secret = 7;

  constructor(
    @inject(TOKEN.Options) readonly options: ScaleOptions,
    @inject(TOKEN.Seed) readonly seed: number,
    @inject(TOKEN.BaseFolder) readonly folder: string,
  ) {}

  get doubled(): number {
    return this.options.factor * 2;
  }

  call(): never {
    throw new Error(`secret ${this.#secret}`);
  }
}

const scale = definePlugin({
  name: 'scale',
  kind: 'loss',
  apiVersion: 1,
  options: z.strictObject({
    factor: z.number().positive().default(1),
    size: z.union([z.int().positive(), z.tuple([z.int(), z.int()])]).optional(),
    mode: z.enum(['mean', 'sum']).default('mean'),
  }),
  implementation: Scale,
});

function hostWith(...plugins: unknown[]): PluginHost {
  const host = new PluginHost();
  for (const plugin of plugins) host.register(plugin, 'test.ts');
  return host;
}

describe('register', () => {
  class Empty {}
  const good = { name: 'my-loss', kind: 'loss', apiVersion: 1, options: z.strictObject({}), implementation: Empty };
  const at = 'my-loss.ts';
  const cases: [string, unknown, Record<string, string>][] = [
    [
      'no plugin',
      42,
      {
        code: 'PLUGIN_SHAPE',
        message: 'expected a plugin made by definePlugin({ … }), got 42',
        hint: 'Write `export default definePlugin({ name, kind, apiVersion, options, implementation })`.',
      },
    ],
    [
      'a member that is none',
      { ...good, descripton: 'x' },
      {
        code: 'PLUGIN_SHAPE',
        message: 'unknown member of a plugin "descripton": did you mean "description"?',
        hint: 'Known: description, apiVersion, options, kind, implementation, name.',
      },
    ],
    [
      'a bad name',
      { ...good, name: 'My Loss' },
      {
        code: 'PLUGIN_NAME',
        message: 'expected a name such as "my-loss", got "My Loss"',
        hint: 'Lower-case letters, digits and single dashes or underscores, a letter first.',
      },
    ],
    [
      'an unknown kind',
      { ...good, kind: 'strateg' },
      {
        code: 'PLUGIN_KIND',
        message: 'unknown kind of plugin "strateg": did you mean "strategy"?',
        hint: expect.stringMatching(/^Known: strategy, /) as unknown as string,
        plugin: 'my-loss',
      },
    ],
    [
      'a newer version',
      { ...good, apiVersion: 2 },
      {
        code: 'PLUGIN_API_VERSION',
        message: 'the plugin was written for version 2 of the plugin contract, this alambic has version 1',
        hint: 'Update alambic, or take an older version of the plugin.',
        plugin: 'my-loss',
      },
    ],
    [
      'no version',
      { ...good, apiVersion: undefined },
      {
        code: 'PLUGIN_API_VERSION',
        message: 'expected apiVersion to be 1, got nothing',
        hint: 'Set `apiVersion: 1` after checking the plugin against docs/plugins.md.',
        plugin: 'my-loss',
      },
    ],
    [
      'no schema of options',
      { ...good, options: { size: 3 } },
      {
        code: 'PLUGIN_OPTIONS',
        message: 'expected the options to be a strict zod object, got something else',
        hint: 'Write `options: z.strictObject({ … })` with `z` from "alambic/plugin"; `z.strictObject({})` where there are none.',
        plugin: 'my-loss',
      },
    ],
    [
      'options that let typing errors pass',
      { ...good, options: z.object({}) },
      {
        code: 'PLUGIN_OPTIONS',
        message: 'expected the options to be a strict zod object, got an object that lets unknown keys pass',
        hint: 'Write `options: z.strictObject({ … })` with `z` from "alambic/plugin"; `z.strictObject({})` where there are none.',
        plugin: 'my-loss',
      },
    ],
    [
      'an instance',
      { ...good, implementation: new Empty() },
      {
        code: 'PLUGIN_IMPLEMENTATION',
        message: 'expected the implementation to be a class, got an instance',
        hint: 'Give the class itself, not `new Class()`: the host makes one for each use.',
        plugin: 'my-loss',
      },
    ],
    [
      'a function',
      { ...good, implementation: () => new Empty() },
      {
        code: 'PLUGIN_IMPLEMENTATION',
        message: 'expected the implementation to be a class, got a function',
        hint: 'Give the class itself, not `new Class()`: the host makes one for each use.',
        plugin: 'my-loss',
      },
    ],
  ];

  it.each(cases)('refuses %s', (_, plugin, expected) => {
    expect(thrownBy(() => new PluginHost().register(plugin, at))).toEqual({ ...expected, at });
  });

  it('refuses a second plugin of a name within a kind, and names both places', () => {
    const host = new PluginHost();
    host.register(scale, 'built in');
    expect(host.register(scale, 'again.ts')).toBe(scale);
    expect(thrownBy(() => host.register({ ...scale }, '/a/scale.ts'))).toEqual({
      code: 'PLUGIN_DUPLICATE',
      message: 'expected one loss named "scale", found two: built in and /a/scale.ts',
      hint: 'Rename one of them.',
      at: '/a/scale.ts',
      plugin: 'scale',
    });
    host.register({ ...good, name: 'scale', kind: 'metric' }, '/a/metric.ts');
    expect(host.list().map(({ plugin }) => `${plugin.kind} ${plugin.name}`)).toEqual(['loss scale', 'metric scale']);
  });

  it('forks: what is registered in the fork is not seen in the original', () => {
    const host = hostWith(scale);
    const fork = host.fork();
    fork.register({ ...good }, 'x.ts');
    expect([host.has('loss', 'my-loss'), fork.has('loss', 'my-loss'), fork.has('loss', 'scale')]).toEqual([
      false,
      true,
      true,
    ]);
  });
});

describe('options', () => {
  it('fills in defaults, and takes its own output again', () => {
    const host = hostWith(scale);
    const parsed = host.parseOptions('loss', 'scale', {});
    expect(parsed).toEqual({ factor: 1, mode: 'mean' });
    expect(host.parseOptions('loss', 'scale', parsed)).toEqual(parsed);
  });

  it('reports all problems of a use with the nearest known name', () => {
    const host = hostWith(scale);
    const parse = (options: unknown) => thrownBy(() => host.parseOptions('loss', 'scale', options));
    expect(parse({ facter: 2, mode: 'men', size: 'big' })).toEqual({
      code: 'PLUGIN_OPTION',
      message:
        'options of loss "scale": size: expected a number or a list, got "big"; mode: expected one of mean, sum, got "men": did you mean "mean"?; unknown key "facter": did you mean "factor"?',
      hint: 'Known: factor, mode, size.',
      plugin: 'scale',
    });
    expect(parse({ factor: -1 }).message).toBe('options of loss "scale": factor: expected more than 0, got -1');
    expect(parse({ size: [1, 2, 3] }).message).toBe(
      'options of loss "scale": size: expected a list of at most 2 items, got [1,2,3]',
    );
    expect(parse({ size: [1, 'a'] }).message).toBe('options of loss "scale": size[1]: expected a number, got "a"');
    expect(parse({ size: 1.5 }).message).toBe(
      'options of loss "scale": size: expected a whole number or a list, got 1.5',
    );
    expect(parse({ factor: Number.NaN }).message).toBe('options of loss "scale": factor: expected a number, got NaN');
  });

  it('knows the nearest name of a plugin, and kinds in which the name exists', () => {
    const host = hostWith(scale);
    expect(thrownBy(() => host.get('loss', 'scael'))).toEqual({
      code: 'UNKNOWN_PLUGIN',
      message: 'unknown loss "scael": did you mean "scale"?',
      hint: 'Known: scale.',
    });
    expect(thrownBy(() => host.get('strategy', 'scale'))).toEqual({
      code: 'UNKNOWN_PLUGIN',
      message: 'unknown strategy "scale": there is a loss of that name',
      hint: 'No strategy is known here.',
    });
  });
});

describe('instantiate', () => {
  it('keeps the options of two uses of one plugin apart: classes are transient', () => {
    const host = hostWith(scale);
    const run = host.openScope({ seed: 5, baseFolder: '/recipes' });
    const stage = host.openScope({ seed: 6 }, run);
    const first = host.instantiate('loss', 'scale', { factor: 2 }, { parent: run }) as Scale;
    const second = host.instantiate('loss', 'scale', { factor: 3 }, { parent: stage }) as Scale;
    const third = host.instantiateUse('loss', 'scale', { seed: 9 }) as Scale;
    expect([first.options.factor, second.options.factor, third.options.factor]).toEqual([2, 3, 1]);
    // Root -> run -> stage -> use: each level hides the one above.
    expect([first.seed, second.seed, third.seed]).toEqual([5, 6, 9]);
    expect([first.folder, second.folder, third.folder]).toEqual(['/recipes', '/recipes', process.cwd()]);
  });

  it('makes plugins inside plugins, checked together with the outer options', () => {
    @injectable()
    class Outer implements Strategy {
      readonly inner: Loss;

      constructor(@inject(TOKEN.Options) options: { loss: Use }, @inject(TOKEN.Create) create: CreatePlugin) {
        this.inner = create('loss', options.loss);
      }

      terms() {
        return this.inner.call({} as never) as never;
      }
    }
    const outer = definePlugin({
      name: 'outer',
      kind: 'strategy',
      apiVersion: 1,
      options: z.strictObject({
        loss: useOf('loss').prefault('scale').describe('the loss'),
        more: z.array(useOf('loss')).default([]),
      }),
      implementation: Outer,
    });
    const host = hostWith(scale, outer);
    const run = host.openScope({ seed: 3 });
    const made = host.instantiate('strategy', 'outer', { loss: { use: 'scale', factor: 4 } }, { parent: run }) as Outer;
    expect((made.inner as Scale).options).toEqual({ factor: 4, mode: 'mean' });
    expect((made.inner as Scale).seed).toBe(3);
    expect(host.parseOptions('strategy', 'outer', {})).toEqual({
      loss: { use: 'scale', factor: 1, mode: 'mean' },
      more: [],
    });
    const parse = (options: unknown) => thrownBy(() => host.parseOptions('strategy', 'outer', options)).message;
    expect(parse({ loss: { use: 'scale', facter: 1 } })).toBe(
      'options of strategy "outer": loss: unknown key "facter": did you mean "factor"?',
    );
    expect(parse({ loss: 'scal' })).toBe(
      'options of strategy "outer": loss: unknown loss "scal": did you mean "scale"?',
    );
    expect(parse({ more: ['scale', { factor: 1 }] })).toBe(
      'options of strategy "outer": more[1]: missing key "use": expected the name of a loss',
    );
    // The error tells of the plugin it was thrown in, not of the one around it.
    expect(thrownBy(() => made.terms())).toMatchObject({ code: 'PLUGIN_HOOK', plugin: 'scale (loss), call' });
  });

  it('says which constructor parameters lack @inject', () => {
    class Bare {
      constructor(readonly options: unknown) {}
      call() {}
    }
    @injectable()
    class Half {
      constructor(
        @inject(TOKEN.Options) readonly options: unknown,
        readonly rest: unknown,
      ) {}
      call() {}
    }
    const plugin = (implementation: unknown) => ({ ...scale, implementation });
    const hint =
      'Write `@inject(TOKEN.Options)` (or another of TOKEN.Options, TOKEN.Implementation, TOKEN.Events, TOKEN.BaseFolder, TOKEN.Create, TOKEN.Seed) before every constructor parameter.';
    expect(thrownBy(() => hostWith(plugin(Bare)).instantiate('loss', 'scale'))).toEqual({
      code: 'PLUGIN_INJECTION',
      message: "the plugin's constructor has 1 parameters, but @inject on 0 of them",
      hint,
      plugin: 'scale (loss)',
    });
    expect(thrownBy(() => hostWith(plugin(Half)).instantiate('loss', 'scale')).message).toBe(
      "the plugin's constructor has 2 parameters, but @inject on 1 of them",
    );
  });

  it('says what nothing provides, and shares services that a run binds', () => {
    const CLOCK = Symbol.for('test.Clock');
    @injectable()
    class Ticking {
      constructor(@inject(CLOCK) readonly clock: object) {}
      call() {}
    }
    const host = hostWith({ ...scale, implementation: Ticking });
    expect(thrownBy(() => host.instantiate('loss', 'scale'))).toMatchObject({
      code: 'PLUGIN_INJECTION',
      message: "the plugin's constructor asks for Symbol(test.Clock), which nothing provides here",
    });
    const clock = {};
    const run = host.openScope({ services: [[CLOCK, clock]] });
    const made = [1, 2].map(() => host.instantiate('loss', 'scale', {}, { parent: run }) as unknown as Ticking);
    expect(made.map((one) => one.clock === clock)).toEqual([true, true]);
    expect(made[0]).not.toBe(made[1]);
  });

  it('keeps the code of an error thrown in the constructor', () => {
    class Picky {
      constructor() {
        throw new AlambicError('PRECONDITION', 'expected more');
      }
    }
    expect(thrownBy(() => hostWith({ ...scale, implementation: Picky }).instantiate('loss', 'scale'))).toEqual({
      code: 'PRECONDITION',
      message: 'expected more',
      plugin: 'scale (loss), constructor',
    });
  });

  it('refuses an implementation without its methods, or with a misspelt one', () => {
    const make = (kind: string, implementation: unknown) => {
      const host = hostWith({ ...scale, kind, implementation });
      return thrownBy(() => host.instantiate(kind as 'loss', 'scale'));
    };
    expect(
      make(
        'loss',
        class {
          cal() {}
        },
      ),
    ).toEqual({
      code: 'PLUGIN_IMPLEMENTATION',
      message: 'expected the implementation of a loss to have call, found the methods cal',
      hint: 'Rename "cal" to "call".',
      plugin: 'scale (loss)',
    });
    expect(make('strategy', class {})).toEqual({
      code: 'PLUGIN_IMPLEMENTATION',
      message: 'expected the implementation of a strategy to have at least one hook, found none',
      hint: 'Hooks of a strategy: check, modules, groups, terms, weights, update, advance.',
      plugin: 'scale (strategy)',
    });
    expect(
      make(
        'strategy',
        class {
          terms() {}
          wieghts() {}
        },
      ),
    ).toEqual({
      code: 'PLUGIN_IMPLEMENTATION',
      message: 'the method "wieghts" is no hook of a strategy: did you mean "weights"?',
      hint: 'Rename it, or make it private (#wieghts) where it is a helper.',
      plugin: 'scale (strategy)',
    });
  });
});

describe('errors in hooks', () => {
  it('name plugin and hook, and keep the cause; getters and private fields work', () => {
    const loss = hostWith(scale).instantiate('loss', 'scale', { factor: 4 }) as Scale;
    expect(loss.doubled).toBe(8);
    let caught: unknown;
    try {
      loss.call();
    } catch (error) {
      caught = error;
    }
    expect(errorFacts(caught)).toEqual({
      code: 'PLUGIN_HOOK',
      message: 'expected call() of the plugin to return, it threw: secret 7',
      hint: 'Look at the cause below.',
      plugin: 'scale (loss), call',
    });
    expect(((caught as Error).cause as Error).message).toBe('secret 7');
  });

  it('are caught in async hooks too, with the code of an AlambicError', async () => {
    class Later {
      async on({ type }: { type: string }): Promise<void> {
        await Promise.resolve();
        if (type === 'run-end') throw new AlambicError('DISK', 'no space', { hint: 'Free some.' });
        throw new TypeError('odd');
      }
    }
    const host = hostWith({ ...scale, kind: 'logger', implementation: Later });
    const logger: Listener = host.instantiate('logger', 'scale');
    expect(errorFacts(await rejectionOf(Promise.resolve(logger.on({ type: 'run-end', seconds: 1 }))))).toEqual({
      code: 'DISK',
      message: 'no space',
      hint: 'Free some.',
      plugin: 'scale (logger), on',
    });
    const other = await rejectionOf(Promise.resolve(logger.on({ type: 'interrupted', signal: 'x', checkpoint: 'y' })));
    expect([other.code, other.cause]).toEqual(['PLUGIN_HOOK', expect.any(TypeError)]);
  });
});
