import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor ln_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);"

CUDA = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAGuard.h>

constexpr int CTAS = 128;
constexpr int THREADS = 512;
constexpr int WARPS = THREADS / 32;
constexpr int STAGES = 14;
constexpr int CHUNK = 1024;                    // float4 per chunk
constexpr int SLICE = 8 * CHUNK;               // float4 per CTA and sample
constexpr size_t M4 = (size_t)CTAS * SLICE;    // float4 per sample
constexpr int SMEM_BYTES = STAGES * CHUNK * 16;

__device__ __forceinline__ void cp16(uint32_t dst, const float4* src, uint64_t pol) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;"
               :: "r"(dst), "l"(src), "l"(pol) : "memory");
}

__device__ __forceinline__ void cp_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N>
__device__ __forceinline__ void cp_wait() {
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

// Volatile: neither hoisted out of the sample loop nor moved across the barrier.
__device__ __forceinline__ float4 ld_hint(const float4* p, uint64_t pol) {
  float4 v;
  asm volatile("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p), "l"(pol));
  return v;
}

__device__ __forceinline__ float ld_scalar(const float4* p) {
  float v;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}

__device__ __forceinline__ unsigned ld_acquire(const unsigned* p) {
  unsigned v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

constexpr uint32_t STAGE_BYTES = CHUNK * 16;
constexpr uint32_t RING_BYTES = STAGES * STAGE_BYTES;
constexpr unsigned long long NOT_YET = ~0ull;   // a partial that has not been published

__device__ __forceinline__ void st_relaxed(unsigned long long* p, unsigned long long v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory");
}

__device__ __forceinline__ unsigned long long ld_relaxed(const unsigned long long* p) {
  unsigned long long v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}

// Volatile: keeps its place between the waits and the refills.
__device__ __forceinline__ float4 lds(uint32_t a) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(a));
  return v;
}

__device__ __forceinline__ void accumulate(const float4& v, float K, float& s, float& q) {
  const float a = v.x - K, b = v.y - K, c = v.z - K, d = v.w - K;
  s += (a + b) + (c + d);
  q += fmaf(a, a, b * b) + fmaf(c, c, d * d);
}

__device__ __forceinline__ float4 normalise(const float4& v, float mean, float rstd,
                                            const float4& w, const float4& b) {
  float4 o;
  o.x = fmaf((v.x - mean) * rstd, w.x, b.x);
  o.y = fmaf((v.y - mean) * rstd, w.y, b.y);
  o.z = fmaf((v.z - mean) * rstd, w.z, b.z);
  o.w = fmaf((v.w - mean) * rstd, w.w, b.w);
  return o;
}

// Sums this CTA's part and publishes {sum, sum of squares} as one self-validating word.
__device__ __forceinline__ void publish(float s, float q, float2* red, unsigned long long* dst,
                                        int lane, int warp) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    s += __shfl_xor_sync(0xffffffffu, s, o);
    q += __shfl_xor_sync(0xffffffffu, q, o);
  }
  if (lane == 0) red[warp] = make_float2(s, q);
  __syncthreads();
  if (warp == 0) {
    const float2 r = red[lane & (WARPS - 1)];
    s = r.x;
    q = r.y;
#pragma unroll
    for (int o = WARPS / 2; o > 0; o >>= 1) {
      s += __shfl_xor_sync(0xffffffffu, s, o);
      q += __shfl_xor_sync(0xffffffffu, q, o);
    }
    if (lane == 0) {
      unsigned long long v =
          ((unsigned long long)__float_as_uint(q) << 32) | (unsigned long long)__float_as_uint(s);
      if (v == NOT_YET) v = 0x7fc000007fc00000ull;
      st_relaxed(dst, v);
    }
  }
}

// Chunk C of the sample whose chunk 0 is 8 stages behind the stage at cur.
#define STATS(C, PEND, SHIFT)                                  \
  {                                                            \
    cp_wait<(PEND)>();                                         \
    uint32_t sa = cur + (uint32_t)(8 + (C)) * STAGE_BYTES;     \
    if (sa >= ring_end) sa -= RING_BYTES;                      \
    const float4 va = lds(sa);                                 \
    const float4 vb = lds(sa + THREADS * 16);                  \
    accumulate(va, SHIFT, s, q);                               \
    accumulate(vb, SHIFT, s, q);                               \
  }

// Normalises chunk J, refills its stage (chunk J+6 of sample n+1, or J-2 of sample n+2) and
// loads the bias two chunks ahead; it runs on over the sample boundary.
#define NORM(J)                                                                          \
  {                                                                                      \
    uint32_t sa = cur + (uint32_t)(J) * STAGE_BYTES;                                     \
    if (sa >= ring_end) sa -= RING_BYTES;                                                \
    const float4 va = lds(sa);                                                           \
    const float4 vb = lds(sa + THREADS * 16);                                            \
    __stcs(os + (J) * CHUNK,                                                             \
           normalise(va, mean, rstd, wr[2 * (J)], br[2 * ((J) & 1)]));                   \
    __stcs(os + (J) * CHUNK + THREADS,                                                   \
           normalise(vb, mean, rstd, wr[2 * (J) + 1], br[2 * ((J) & 1) + 1]));           \
    if (((J) < 2) ? more : more2) {                                                      \
      const float4* src = ((J) < 2) ? (xn - M4 + ((J) + 6) * CHUNK)                      \
                                    : (xn + ((J) - 2) * CHUNK);                          \
      cp16(sa, src, pol_first);                                                          \
      cp16(sa + THREADS * 16, src + THREADS, pol_first);                                 \
    }                                                                                    \
    cp_commit();                                                                         \
    br[2 * ((J) & 1)] = ld_hint(bs + (((J) + 2) & 7) * CHUNK, pol_last);                 \
    br[2 * ((J) & 1) + 1] = ld_hint(bs + (((J) + 2) & 7) * CHUNK + THREADS, pol_last);   \
  }

__global__ void __launch_bounds__(THREADS, 1)
ln_kernel(const float4* x4, const float4* w4, const float4* b4, float4* o4,
          unsigned long long* part, int N, float eps) {
  extern __shared__ float4 ring[];
  __shared__ float2 red[WARPS];
  __shared__ float2 stat;
  __shared__ float shift;      // shift of the sample to be collected; used by thread 0 only

  const int t = threadIdx.x;
  const int lane = t & 31;
  const int warp = t >> 5;
  const int blk = blockIdx.x;
  const size_t base = (size_t)blk * SLICE + t;

  uint64_t pol_first, pol_last;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(pol_first));
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(pol_last));

  const float4* xs = x4 + base;
  const float4* bs = b4 + base;
  const uint32_t ring_t = (uint32_t)__cvta_generic_to_shared(ring) + (uint32_t)t * 16u;
  const uint32_t ring_end = ring_t + RING_BYTES;

  // Prologue: chunks 0..13 into stages 0..13, one group each.
#pragma unroll
  for (int k = 0; k < STAGES; ++k) {
    if ((k >> 3) < N) {
      const float4* src = xs + (size_t)(k >> 3) * M4 + (k & 7) * CHUNK;
      const uint32_t dst = ring_t + (uint32_t)k * STAGE_BYTES;
      cp16(dst, src, pol_first);
      cp16(dst + THREADS * 16, src + THREADS, pol_first);
    }
    cp_commit();
  }

  const float K0 = ld_scalar(x4);
  float Kn = ld_scalar(x4 + (size_t)(N > 1 ? 1 : 0) * M4);

  // The weight slice stays in registers for the whole kernel.
  float4 wr[16];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    wr[2 * j] = ld_hint(w4 + base + j * CHUNK, pol_first);
    wr[2 * j + 1] = ld_hint(w4 + base + j * CHUNK + THREADS, pol_first);
  }

  // Bias of chunks 0 and 1.
  float4 br[4];
  br[0] = ld_hint(bs, pol_last);
  br[1] = ld_hint(bs + THREADS, pol_last);
  br[2] = ld_hint(bs + CHUNK, pol_last);
  br[3] = ld_hint(bs + CHUNK + THREADS, pol_last);

  // Statistics of sample 0: with cur at stage 6, (6 + 8 + C) - 14 = C.
  uint32_t cur = ring_t + 6u * STAGE_BYTES;
  {
    float s = 0.f, q = 0.f;
    STATS(0, 13, K0)
    STATS(1, 12, K0)
    STATS(2, 11, K0)
    STATS(3, 10, K0)
    STATS(4, 9, K0)
    STATS(5, 8, K0)
    STATS(6, 7, K0)
    STATS(7, 6, K0)
    if (t == 0) shift = K0;
    publish(s, q, red, part + blk, lane, warp);
  }

  cur = ring_t;                       // stage of the current sample's chunk 0
  const float4* xn = xs + 2 * M4;     // this thread's part of sample n + 2
  float4* os = o4 + base;             // this thread's part of output sample n

#pragma unroll 1
  for (int n = 0; n < N; ++n) {
    // ---- collect the 128 partials of sample n -------------------------------------------
    if (warp == 0) {
      const unsigned long long* row = part + (size_t)n * CTAS + lane;
      unsigned long long v0, v1, v2, v3;
      do {
        v0 = ld_relaxed(row);
        v1 = ld_relaxed(row + 32);
        v2 = ld_relaxed(row + 64);
        v3 = ld_relaxed(row + 96);
      } while (v0 == NOT_YET || v1 == NOT_YET || v2 == NOT_YET || v3 == NOT_YET);
      __syncwarp();
      double ds = ((double)__uint_as_float((unsigned)v0) + (double)__uint_as_float((unsigned)v1)) +
                  ((double)__uint_as_float((unsigned)v2) + (double)__uint_as_float((unsigned)v3));
      double dq = ((double)__uint_as_float((unsigned)(v0 >> 32)) +
                   (double)__uint_as_float((unsigned)(v1 >> 32))) +
                  ((double)__uint_as_float((unsigned)(v2 >> 32)) +
                   (double)__uint_as_float((unsigned)(v3 >> 32)));
#pragma unroll
      for (int o = 16; o > 0; o >>= 1) {
        ds += __shfl_xor_sync(0xffffffffu, ds, o);
        dq += __shfl_xor_sync(0xffffffffu, dq, o);
      }
      if (lane == 0) {
        const double inv = 1.0 / (double)(M4 * 4);  // a power of two, known when compiling
        const double m = ds * inv;
        double var = dq * inv - m * m;
        if (var < 0.0) var = 0.0;
        stat = make_float2((float)((double)shift + m), rsqrtf((float)var + eps));
      }
    }
    __syncthreads();
    const float mean = stat.x;
    const float rstd = stat.y;

    // ---- normalise sample n, with the statistics of sample n + 1 in between --------------
    const bool more = n + 1 < N;      // uniform over the grid
    const bool more2 = n + 2 < N;
    float s = 0.f, q = 0.f;

    NORM(0)
    if (more) {
      STATS(0, 6, Kn)
      STATS(1, 5, Kn)
    }
    NORM(1)
    if (more) {
      STATS(2, 5, Kn)
      STATS(3, 4, Kn)
    }
    NORM(2)
    if (more) {
      STATS(4, 4, Kn)
    }
    NORM(3)
    if (more) {
      STATS(5, 4, Kn)
    }
    NORM(4)
    if (more) {
      STATS(6, 4, Kn)
      STATS(7, 3, Kn)
      if (t == 0) shift = Kn;
      publish(s, q, red, part + (size_t)(n + 1) * CTAS + blk, lane, warp);
      Kn = ld_scalar(x4 + (size_t)(more2 ? n + 2 : n + 1) * M4);
    }
    // These hide the grid-wide reduction of sample n + 1.
    NORM(5)
    NORM(6)
    NORM(7)

    xn += M4;
    os += M4;
    cur += 8u * STAGE_BYTES;
    if (cur >= ring_end) cur -= RING_BYTES;
  }
}

torch::Tensor ln_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
  TORCH_CHECK(x.is_cuda() && w.is_cuda() && b.is_cuda(), "tensors must be on the GPU");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && w.scalar_type() == torch::kFloat32 &&
              b.scalar_type() == torch::kFloat32, "tensors must be float32");
  TORCH_CHECK(x.is_contiguous() && w.is_contiguous() && b.is_contiguous(),
              "tensors must be contiguous");
  const int64_t M = (int64_t)M4 * 4;
  TORCH_CHECK(w.numel() == M && b.numel() == M && x.numel() > 0 && x.numel() % M == 0,
              "unsupported shape");
  const c10::cuda::CUDAGuard guard(x.device());
  cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();

  int N = (int)(x.numel() / M);
  auto out = torch::empty_like(x);
  const int64_t part_bytes = (int64_t)N * CTAS * (int64_t)sizeof(unsigned long long);
  auto work = torch::empty({part_bytes}, x.options().dtype(torch::kUInt8));

  const float4* x4 = reinterpret_cast<const float4*>(x.data_ptr<float>());
  const float4* w4 = reinterpret_cast<const float4*>(w.data_ptr<float>());
  const float4* b4 = reinterpret_cast<const float4*>(b.data_ptr<float>());
  float4* o4 = reinterpret_cast<float4*>(out.data_ptr<float>());
  unsigned long long* part = reinterpret_cast<unsigned long long*>(work.data_ptr<uint8_t>());
  float eps_f = (float)eps;

  cudaError_t err = cudaFuncSetAttribute((const void*)ln_kernel,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES);
  TORCH_CHECK(err == cudaSuccess, "cudaFuncSetAttribute: ", cudaGetErrorString(err));
  // All ones = not published yet; before every launch.
  err = cudaMemsetAsync(part, 0xFF, (size_t)part_bytes, stream);
  TORCH_CHECK(err == cudaSuccess, "cudaMemsetAsync: ", cudaGetErrorString(err));

  void* args[] = {(void*)&x4, (void*)&w4, (void*)&b4, (void*)&o4,
                  (void*)&part, (void*)&N, (void*)&eps_f};
  err = cudaLaunchCooperativeKernel((const void*)ln_kernel, dim3(CTAS), dim3(THREADS), args,
                                    (size_t)SMEM_BYTES, stream);
  TORCH_CHECK(err == cudaSuccess, "cudaLaunchCooperativeKernel: ", cudaGetErrorString(err));
  return out;
}
"""

ext = load_inline(
    name="ln_onchip",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["ln_forward"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """
    Layer Normalization by one persistent cooperative kernel that reads x once.
    """
    def __init__(self, normalized_shape: tuple):
        """
        Initializes the LayerNorm layer.

        Args:
            normalized_shape (tuple): Shape of the input tensor to be normalized.
        """
        super(ModelNew, self).__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """
        Applies Layer Normalization to the input tensor.

        Args:
            x (torch.Tensor): Input tensor of shape (*, normalized_shape).

        Returns:
            torch.Tensor: Output tensor with Layer Normalization applied, same shape as input.
        """
        w = self.ln.weight
        b = self.ln.bias
        shape = tuple(self.ln.normalized_shape)
        if (
            x.is_cuda
            and x.dtype == torch.float32
            and x.is_contiguous()
            and x.numel() > 0
            and w.numel() == 4194304
            and tuple(x.shape[-len(shape):]) == shape
            and w.device == x.device
            and b.device == x.device
            and w.dtype == torch.float32
            and b.dtype == torch.float32
            and w.is_contiguous()
            and b.is_contiguous()
            and x.data_ptr() % 16 == 0
            and w.data_ptr() % 16 == 0
            and b.data_ptr() % 16 == 0
        ):
            return ext.ln_forward(x, w, b, self.ln.eps)
        return self.ln(x)


batch_size = 16
features = 64
dim1 = 256
dim2 = 256

def get_inputs():
    x = torch.rand(batch_size, features, dim1, dim2)
    return [x]

def get_init_inputs():
    return [(features, dim1, dim2)]
