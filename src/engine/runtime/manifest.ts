import { AlambicError } from '../../errors.ts';
import type { PlatformName } from './platform.ts';

/** The release whose libraries are installed. */
export const TENSORFLOW_VERSION = '2.21.0';
/** The releases whose C functions alambic is built for. */
export const TENSORFLOW_SERIES = '2.21.x';

/** Whether a version of TensorFlow is a final release of the series that alambic is built for. */
export function isFittingVersion(version: string): boolean {
  return /^2\.21\.\d+(\+.*)?$/.test(version);
}

/** With or without CUDA. */
export type RuntimeKind = 'cpu' | 'gpu';

/** One file on the package index, by its name and contents. */
export interface WheelFile {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** A package of which some files are needed. */
export interface Wheel {
  /** Name of the project on the index. */
  readonly project: string;
  readonly version: string;
  /** The same libraries are in the wheels for several Pythons: the first is downloaded, any is taken where it lies at hand. */
  readonly files: readonly WheelFile[];
  /** Names in the wheel of what is unpacked. */
  readonly members: RegExp;
  /** Size of that, unpacked, in bytes (rounded up). */
  readonly unpackedBytes: number;
}

/** A link made in the runtime's folder, so that a library is found where TensorFlow looks for it. */
export interface Link {
  readonly path: string;
  readonly target: string;
}

/** All that makes up a runtime of one platform and kind. */
export interface Bundle {
  readonly kind: RuntimeKind;
  readonly platform: PlatformName;
  readonly version: string;
  readonly wheels: readonly Wheel[];
  readonly links: readonly Link[];
}

const LICENCES = String.raw`[^/]+\.dist-info/(?:.*/)?(?:LICEN[CS]E|License|NOTICE)[^/]*`;
const TENSORFLOW_MEMBERS = new RegExp(
  String.raw`^(?:tensorflow/libtensorflow_(?:framework|cc)\.(?:so\.2|2\.dylib)|tensorflow/THIRD_PARTY_NOTICES\.txt|${LICENCES})$`,
);
/** Without what TensorFlow never opens: drop-in BLAS and FFTW, several GPUs in cuSOLVER, variants of nvrtc. */
const CUDA_MEMBERS = new RegExp(
  String.raw`^(?:nvidia/[^/]+/lib/(?!libnvblas|libcufftw|libcusolverMg|[^/]*\.alt\.)[^/]+\.so(?:\.[\d.]+)?|${LICENCES})$`,
);
/** XLA compiles for the GPU with ptxas and the device library; the rest of the compiler is not needed. */
const NVCC_MEMBERS = new RegExp(
  String.raw`^(?:nvidia/cuda_nvcc/bin/ptxas|nvidia/cuda_nvcc/nvvm/libdevice/[^/]+\.bc|${LICENCES})$`,
);

// Names, sizes and hashes are those of the package index.
const LINUX_X86_64_CPU: readonly WheelFile[] = [
  {
    file: 'tensorflow_cpu-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl',
    bytes: 273_829_956,
    sha256: '2b847d217b02ee7731ed91431daf3250daa0196c3c94614d23be27232e6e5b6c',
  },
  {
    file: 'tensorflow_cpu-2.21.0-cp310-cp310-manylinux_2_27_x86_64.whl',
    bytes: 273_601_549,
    sha256: 'd143e92f5c0661cdfa26eaca8f73cd2efd0ec53a68af8dec82f584ba8eb14b83',
  },
  {
    file: 'tensorflow_cpu-2.21.0-cp312-cp312-manylinux_2_27_x86_64.whl',
    bytes: 274_000_871,
    sha256: 'dcc8afd32930e42d5296b6ee19078b773706830af4ea97fbe503b9f5e0f820cb',
  },
  {
    file: 'tensorflow_cpu-2.21.0-cp313-cp313-manylinux_2_27_x86_64.whl',
    bytes: 274_271_560,
    sha256: '05af7c26d35f4de910b5598c7b507e3981831a7b0f47fed9a405d995d51d7793',
  },
];
const LINUX_X86_64_GPU: readonly WheelFile[] = [
  {
    file: 'tensorflow-2.21.0-cp311-cp311-manylinux_2_27_x86_64.whl',
    bytes: 572_440_367,
    sha256: '9056fbc9ba04235810b71ae6cbd958a196e8804fb53bbcffbf3e23b56155f124',
  },
  {
    file: 'tensorflow-2.21.0-cp310-cp310-manylinux_2_27_x86_64.whl',
    bytes: 572_211_261,
    sha256: '77c6f298e695ea1d283cdd7d30f8d97530cc6e92c1395a9ddbab9771c99233a4',
  },
  {
    file: 'tensorflow-2.21.0-cp312-cp312-manylinux_2_27_x86_64.whl',
    bytes: 572_611_111,
    sha256: 'b3b95643c4e70eb925839938fb35cbe142f317ec84af6844ee61513713bb13c0',
  },
  {
    file: 'tensorflow-2.21.0-cp313-cp313-manylinux_2_27_x86_64.whl',
    bytes: 572_881_074,
    sha256: 'e9d8da8dcab9650efb45f032ba70af2f016f907e6e0c6bda29dd101bba945406',
  },
];
const LINUX_AARCH64: readonly WheelFile[] = [
  {
    file: 'tensorflow-2.21.0-cp311-cp311-manylinux_2_27_aarch64.whl',
    bytes: 281_828_020,
    sha256: '4b24aca16d527a3cf1c37f720c04c484c3d20f4d0fdfa98632ac8b9f3be6eb5c',
  },
  {
    file: 'tensorflow-2.21.0-cp310-cp310-manylinux_2_27_aarch64.whl',
    bytes: 281_604_511,
    sha256: '7c97938b25cf70c80ae8619931f85abcdee2ab2eb256c2051202edb3b89e9a5d',
  },
  {
    file: 'tensorflow-2.21.0-cp312-cp312-manylinux_2_27_aarch64.whl',
    bytes: 281_946_471,
    sha256: 'b07d15737406533898e36c7ef7944b1be18e9028dc521b9229952c537bbc5552',
  },
  {
    file: 'tensorflow-2.21.0-cp313-cp313-manylinux_2_27_aarch64.whl',
    bytes: 282_213_003,
    sha256: 'a10abdfb8b1189210c251021a3f153b7ccc52a8e6521351f3dc3331e8ba593e0',
  },
];
const MACOS_ARM64: readonly WheelFile[] = [
  {
    file: 'tensorflow-2.21.0-cp311-cp311-macosx_12_0_arm64.whl',
    bytes: 223_405_849,
    sha256: '51f46f4806139d01fc7920cc72a4c75876f80649bf40ff083ab6212ceb43ca88',
  },
  {
    file: 'tensorflow-2.21.0-cp310-cp310-macosx_12_0_arm64.whl',
    bytes: 223_229_342,
    sha256: '6462632889e0e9ce1455b208c87b86a8c154e899407ef7d426ef1ec71647f565',
  },
  {
    file: 'tensorflow-2.21.0-cp312-cp312-macosx_12_0_arm64.whl',
    bytes: 223_488_205,
    sha256: '56ecd7d47429acbe1df2694d50b75bf9fc3995ac92cb367cd9af6c4780ead712',
  },
  {
    file: 'tensorflow-2.21.0-cp313-cp313-macosx_12_0_arm64.whl',
    bytes: 223_766_900,
    sha256: 'a145ed46c58192b7c3f9916d070caf4f6afc6dc7e5511f83dd97677f4c4947f4',
  },
];

/** NVIDIA's packages that fit `tensorflow[and-cuda]==2.21.0`, of CUDA 12.9. Not needed: nccl (several GPUs), cupti (profiler), curand. */
const CUDA_WHEELS: readonly Wheel[] = [
  cuda('nvidia-cuda-runtime-cu12', '12.9.79', 1_000_000, {
    file: 'nvidia_cuda_runtime_cu12-12.9.79-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl',
    bytes: 3_493_179,
    sha256: '25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3',
  }),
  cuda('nvidia-cublas-cu12', '12.9.1.4', 855_000_000, {
    file: 'nvidia_cublas_cu12-12.9.1.4-py3-none-manylinux_2_27_x86_64.whl',
    bytes: 581_242_350,
    sha256: '453611eb21a7c1f2c2156ed9f3a45b691deda0440ec550860290dc901af5b4c2',
  }),
  cuda('nvidia-cufft-cu12', '11.4.1.4', 292_000_000, {
    file: 'nvidia_cufft_cu12-11.4.1.4-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl',
    bytes: 200_877_592,
    sha256: 'c67884f2a7d276b4b80eb56a79322a95df592ae5e765cf1243693365ccab4e28',
  }),
  cuda('nvidia-cusparse-cu12', '12.5.10.65', 487_000_000, {
    file: 'nvidia_cusparse_cu12-12.5.10.65-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl',
    bytes: 366_465_088,
    sha256: '73060ce019ac064a057267c585bf1fd5a353734151f87472ff02b2c5c9984e78',
  }),
  cuda('nvidia-cusolver-cu12', '11.7.5.82', 303_000_000, {
    file: 'nvidia_cusolver_cu12-11.7.5.82-py3-none-manylinux_2_27_x86_64.whl',
    bytes: 338_117_415,
    sha256: '15da72d1340d29b5b3cf3fd100e3cd53421dde36002eda6ed93811af63c40d88',
  }),
  cuda('nvidia-nvjitlink-cu12', '12.9.86', 96_000_000, {
    file: 'nvidia_nvjitlink_cu12-12.9.86-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl',
    bytes: 39_748_338,
    sha256: 'e3f1171dbdc83c5932a45f0f4c99180a70de9bd2718c1ab77d14104f6d7147f9',
  }),
  cuda('nvidia-cudnn-cu12', '9.19.0.56', 997_000_000, {
    file: 'nvidia_cudnn_cu12-9.19.0.56-py3-none-manylinux_2_27_x86_64.whl',
    bytes: 657_906_812,
    sha256: 'ac6ad90a075bb33a94f2b4cf4622eac13dd4dc65cf6dd9c7572a318516a36625',
  }),
  cuda(
    'nvidia-cuda-nvcc-cu12',
    '12.9.86',
    36_000_000,
    {
      file: 'nvidia_cuda_nvcc_cu12-12.9.86-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl',
      bytes: 40_546_229,
      sha256: '5d6a0d32fdc7ea39917c20065614ae93add6f577d840233237ff08e9a38f58f0',
    },
    NVCC_MEMBERS,
  ),
  cuda('nvidia-cuda-nvrtc-cu12', '12.9.86', 114_000_000, {
    file: 'nvidia_cuda_nvrtc_cu12-12.9.86-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl',
    bytes: 89_568_129,
    sha256: '210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4',
  }),
];

/** TensorFlow's framework library opens cuSOLVER, but only libtensorflow_cc searches its folder: so it is linked into one that both search. */
const CUDA_LINKS: readonly Link[] = [
  { path: 'nvidia/cudnn/lib/libcusolver.so.11', target: '../../cusolver/lib/libcusolver.so.11' },
];

function cuda(project: string, version: string, unpackedBytes: number, file: WheelFile, members = CUDA_MEMBERS): Wheel {
  return { project, version, files: [file], members, unpackedBytes };
}

function tensorflow(project: string, files: readonly WheelFile[], unpackedBytes: number): Wheel {
  return { project, version: TENSORFLOW_VERSION, files, members: TENSORFLOW_MEMBERS, unpackedBytes };
}

/**
 * What is installed on a platform.
 *
 * @throws AlambicError RUNTIME_PLATFORM where TensorFlow has no CUDA build for it.
 */
export function bundleFor(platform: PlatformName, kind: RuntimeKind): Bundle {
  const common = { kind, platform, version: TENSORFLOW_VERSION, links: [] };
  if (kind === 'gpu') {
    if (platform !== 'linux-x86_64') {
      throw new AlambicError('RUNTIME_PLATFORM', `expected Linux on x86_64 for --gpu, this is ${platform}`, {
        hint: 'TensorFlow has CUDA libraries for that platform only; leave --gpu out to run on the CPU.',
      });
    }
    const wheels = [tensorflow('tensorflow', LINUX_X86_64_GPU, 1_260_000_000), ...CUDA_WHEELS];
    return { ...common, wheels, links: CUDA_LINKS };
  }
  if (platform === 'linux-x86_64') {
    return { ...common, wheels: [tensorflow('tensorflow-cpu', LINUX_X86_64_CPU, 854_000_000)] };
  }
  if (platform === 'linux-aarch64') {
    return { ...common, wheels: [tensorflow('tensorflow', LINUX_AARCH64, 884_000_000)] };
  }
  return { ...common, wheels: [tensorflow('tensorflow', MACOS_ARM64, 742_000_000)] };
}
