import { homedir } from 'node:os';
import { expect, test } from 'vitest';
import { runtimeFolder } from '../../../src/engine/runtime/context.ts';
import { driverVersionIn } from '../../../src/engine/runtime/driver.ts';
import { bundleFor, isFittingVersion } from '../../../src/engine/runtime/manifest.ts';
import { LINUX } from './wheel.ts';

const CPU = ['linux-x86_64', 'linux-aarch64', 'macos-arm64'] as const;

test('every pinned file is a whole entry: name of its project, version and platform, plausible size, a hash of its own', () => {
  const seen = new Set<string>();
  for (const { platform, wheels } of [...CPU.map((name) => bundleFor(name, 'cpu')), bundleFor('linux-x86_64', 'gpu')]) {
    for (const { project, version, files, unpackedBytes } of wheels) {
      expect(unpackedBytes).toBeGreaterThan(0);
      for (const { file, bytes, sha256 } of files) {
        expect(file.startsWith(`${project.replaceAll('-', '_')}-${version}-`), file).toBe(true);
        expect(file).toMatch(
          platform === 'macos-arm64'
            ? /macosx_\d+_0_arm64\.whl$/
            : new RegExp(`manylinux.*${platform.slice(6)}\\.whl$`),
        );
        expect(bytes).toBeGreaterThan(3_000_000);
        expect(sha256).toMatch(/^[0-9a-f]{64}$/);
        expect(seen.has(sha256), file).toBe(false);
        seen.add(sha256);
      }
    }
  }
  expect(seen.size).toBe(4 * 4 + 9);
});

test('CUDA is for Linux on x86_64 alone', () => {
  for (const platform of ['linux-aarch64', 'macos-arm64'] as const) {
    expect(() => bundleFor(platform, 'gpu')).toThrowError(expect.objectContaining({ code: 'RUNTIME_PLATFORM' }));
  }
});

test('the members that are unpacked are the libraries and their licences', () => {
  const [tensorflow, ...cuda] = bundleFor('linux-x86_64', 'gpu').wheels;
  const takes = (pattern: RegExp, names: readonly string[]) => names.filter((name) => pattern.test(name));
  expect(
    takes(tensorflow!.members, [
      'tensorflow/libtensorflow_cc.so.2',
      'tensorflow/libtensorflow_framework.so.2',
      'tensorflow/THIRD_PARTY_NOTICES.txt',
      'tensorflow/python/_pywrap_tensorflow_internal.so',
      'tensorflow/include/LICENSE',
      'tensorflow-2.21.0.dist-info/RECORD',
    ]),
  ).toHaveLength(3);
  const members = (project: string) => cuda.find((wheel) => wheel.project === project)!.members;
  const licence = 'nvidia_cublas_cu12-12.9.1.4.dist-info/licenses/License.txt';
  expect(
    takes(members('nvidia-cublas-cu12'), [
      'nvidia/cublas/lib/libcublas.so.12',
      'nvidia/cublas/lib/libnvblas.so.12',
      'nvidia/cublas/include/cublas.h',
      licence,
    ]),
  ).toEqual(['nvidia/cublas/lib/libcublas.so.12', licence]);
  expect(
    takes(members('nvidia-cuda-nvrtc-cu12'), [
      'nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9',
      'nvidia/cuda_nvrtc/lib/libnvrtc.alt.so.12',
    ]),
  ).toEqual(['nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.9']);
  expect(
    takes(members('nvidia-cuda-nvcc-cu12'), [
      'nvidia/cuda_nvcc/bin/ptxas',
      'nvidia/cuda_nvcc/bin/crt/link.stub',
      'nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc',
    ]),
  ).toHaveLength(2);
});

test('only final releases of the series fit', () => {
  expect(['2.21.0', '2.21.1', '2.21.0+nv25.1'].every(isFittingVersion)).toBe(true);
  expect(['2.20.0', '2.22.0', '2.21.0rc1', '2.21.0.dev20260101', '2.210.0', '12.21.0'].some(isFittingVersion)).toBe(
    false,
  );
});

test('the cache is where the platform keeps caches, or where the user wants it', () => {
  const of = (env: Record<string, string>, os: 'linux' | 'darwin' = 'linux') =>
    runtimeFolder({ env, machine: { ...LINUX, os } });
  expect(of({ ALAMBIC_CACHE_DIR: '/a', XDG_CACHE_HOME: '/b' })).toBe('/a/runtime');
  expect(of({ XDG_CACHE_HOME: '/b', HOME: '/h' })).toBe('/b/alambic/runtime');
  expect(of({ HOME: '/h' })).toBe('/h/.cache/alambic/runtime');
  expect(of({ HOME: '/h' }, 'darwin')).toBe('/h/Library/Caches/alambic/runtime');
  expect(of({})).toBe(`${homedir()}/.cache/alambic/runtime`);
});

test("the driver's version is read from the text of both kinds of kernel module", () => {
  const closed =
    'NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: gcc 11.4';
  const open =
    'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder)  Thu Jan 1\n';
  expect(driverVersionIn(closed)).toBe('535.104.05');
  expect(driverVersionIn(open)).toBe('570.86.15');
  expect(driverVersionIn('something else')).toBeUndefined();
});
