// Run as a process of its own by install.test.ts: installs, says what it does, and prints the folder.
import { installRuntime } from '../../../src/engine/runtime/index.ts';
import { fakeBundle, fakeContext, fakeWheel } from './wheel.ts';

const [, , cache, index] = process.argv;
const write = (line: string): void => {
  process.stdout.write(`${line}\n`);
};
installRuntime({ context: fakeContext(cache!, index!, fakeBundle(fakeWheel())), say: write }).then(
  ({ folder }) => write(`folder ${folder}`),
  (error: unknown) => {
    write(String(error));
    process.exitCode = 1;
  },
);
