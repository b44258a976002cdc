import { definePlugin, inject, injectable, type Schedule, TOKEN, z } from 'alambic/plugin';

const Options = z.strictObject({
  final: z.number().min(0).max(1).default(0).describe('factor of the rate at the end'),
});

/** A straight line from the base rate to `final` of it. */
@injectable()
export class MySchedule implements Schedule {
  constructor(@inject(TOKEN.Options) private readonly options: z.output<typeof Options>) {}

  factor(step: number, total: number): number {
    const done = total <= 1 ? 1 : Math.min(1, step / (total - 1));
    return 1 + (this.options.final - 1) * done;
  }
}

export default definePlugin({
  name: 'my-schedule',
  kind: 'schedule',
  apiVersion: 1,
  description: 'A straight line from the base rate down.',
  options: Options,
  implementation: MySchedule,
});
