import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

CPP = "torch::Tensor big_layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);"

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
#include <stdint.h>

namespace {

constexpr int BLOCKS = 128;
constexpr int THREADS = 512;
constexpr int WARPS = THREADS / 32;
constexpr int CHUNK = 4096;                 // floats
constexpr int CHUNK4 = CHUNK / 4;           // float4s
constexpr int CHUNK_BYTES = CHUNK * 4;
constexpr int CPR = 8;                      // chunks of one row slice
constexpr int SLICE = CHUNK * CPR;          // 32768 floats
constexpr int SLOTS = 14;
constexpr int LEAD = 11;                    // statistics run this many chunks ahead
constexpr int64_t ROW = (int64_t)SLICE * BLOCKS;
constexpr unsigned long long EMPTY = 0xFFFFFFFFFFFFFFFFull;

static_assert(LEAD == CPR + 3 && LEAD < SLOTS, "the pipeline below is written for this lead");

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void mbar_wait(uint32_t bar, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{\n\t.reg .pred p;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  } while (!done);
}

__device__ __forceinline__ void tma_load(uint32_t dst, const float* src, uint32_t bar, uint64_t pol) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(bar), "r"((uint32_t)CHUNK_BYTES) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;"
      :: "r"(dst), "l"(src), "r"((uint32_t)CHUNK_BYTES), "r"(bar), "l"(pol) : "memory");
}

__device__ __forceinline__ float4 ld_hint(const float4* p, uint64_t pol) {
  float4 v;
  asm volatile("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p), "l"(pol));
  return v;
}

__device__ __forceinline__ void accumulate(const float4 v, float pivot, float& s, float& ss) {
  const float a = v.x - pivot, b = v.y - pivot, c = v.z - pivot, d = v.w - pivot;
  s += (a + b) + (c + d);
  ss += fmaf(a, a, b * b) + fmaf(c, c, d * d);
}

__device__ __forceinline__ float4 apply(const float4 x, const float4 w, const float4 b,
                                        float mean, float rstd) {
  float4 y;
  y.x = fmaf((x.x - mean) * rstd, w.x, b.x);
  y.y = fmaf((x.y - mean) * rstd, w.y, b.y);
  y.z = fmaf((x.z - mean) * rstd, w.z, b.z);
  y.w = fmaf((x.w - mean) * rstd, w.w, b.w);
  return y;
}

// One warp: joins the sums of the block's warps and publishes (mean, M2) as one 64-bit word.
__device__ __noinline__ void publish(const float2* red, float pivot, unsigned long long* word) {
  const int lane = threadIdx.x & 31;
  double s = 0.0, ss = 0.0;
  if (lane < WARPS) {
    const float2 v = red[lane];
    s = v.x;
    ss = v.y;
  }
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    s += __shfl_xor_sync(0xffffffffu, s, o);
    ss += __shfl_xor_sync(0xffffffffu, ss, o);
  }
  if (lane == 0) {
    const double m = s / (double)SLICE;
    double m2 = ss - s * m;
    if (m2 < 0.0) m2 = 0.0;
    const unsigned int lo = __float_as_uint((float)((double)pivot + m));
    const unsigned int hi = __float_as_uint((float)m2);
    unsigned long long v = ((unsigned long long)hi << 32) | lo;
    if (v == EMPTY) v = 0x7FFFFFFF7FFFFFFFull;
    *(volatile unsigned long long*)word = v;
  }
}

// One warp: waits for the words of all blocks and turns them into the row's mean and 1/std.
__device__ __noinline__ void collect(const unsigned long long* words, float2* out, float eps) {
  const int lane = threadIdx.x & 31;
  const volatile unsigned long long* p = (const volatile unsigned long long*)words;
  unsigned long long v[BLOCKS / 32];
  bool missing;
  do {
    missing = false;
#pragma unroll
    for (int k = 0; k < BLOCKS / 32; ++k) v[k] = p[lane + 32 * k];
#pragma unroll
    for (int k = 0; k < BLOCKS / 32; ++k) missing |= (v[k] == EMPTY);
  } while (missing);
  __syncwarp();
  double m = 0.0;
#pragma unroll
  for (int k = 0; k < BLOCKS / 32; ++k) m += (double)__uint_as_float((unsigned int)v[k]);
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) m += __shfl_xor_sync(0xffffffffu, m, o);
  m /= (double)BLOCKS;
  double q = 0.0;
#pragma unroll
  for (int k = 0; k < BLOCKS / 32; ++k) {
    const double d = (double)__uint_as_float((unsigned int)v[k]) - m;
    q += (double)__uint_as_float((unsigned int)(v[k] >> 32)) + (double)SLICE * d * d;
  }
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) q += __shfl_xor_sync(0xffffffffu, q, o);
  if (lane == 0) {
    const float var = (float)(q / (double)ROW);
    *out = make_float2((float)m, 1.0f / sqrtf(var + eps));
  }
}

__global__ void __launch_bounds__(THREADS, 1)
big_layer_norm_kernel(const float* __restrict__ x, const float* __restrict__ w,
                      const float* __restrict__ b, float* __restrict__ y,
                      unsigned long long* words, int rows, float eps) {
  extern __shared__ __align__(128) unsigned char smem[];
  __shared__ __align__(8) unsigned long long full[SLOTS];
  __shared__ float2 red[WARPS];
  __shared__ float2 stat_sh;

  float4* const buf = reinterpret_cast<float4*>(smem);
  const int t = threadIdx.x;
  const int warp = t >> 5;
  const int total = rows * CPR;
  const int64_t base = (int64_t)blockIdx.x * SLICE;
  const uint32_t buf_addr = smem_u32(smem);
  const uint32_t full_addr = smem_u32(full);

  uint64_t pol_first, pol_last;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(pol_first));
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(pol_last));

  if (t == 0) {
    for (int i = 0; i < SLOTS; ++i) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(full_addr + 8 * i) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  if (t == 0) {
    for (int j = 0; j < SLOTS && j < total; ++j) {
      tma_load(buf_addr + j * CHUNK_BYTES,
               x + (int64_t)(j / CPR) * ROW + base + (j % CPR) * CHUNK, full_addr + 8 * j, pol_first);
    }
  }

  // This block's slice of the weight stays in registers for all rows.
  float4 wr[2 * CPR];
  {
    const float4* wp = reinterpret_cast<const float4*>(w + base) + t;
#pragma unroll
    for (int k = 0; k < 2 * CPR; ++k) wr[k] = ld_hint(wp + k * THREADS, pol_first);
  }
  const float4* const bp = reinterpret_cast<const float4*>(b + base) + t;

  int slot_s = 0;        // slot of the next chunk whose statistics are taken
  uint32_t phase_s = 0;
  int slot_n = 0;        // slot of the next chunk to normalise
  float pivot = 0.f, s = 0.f, ss = 0.f;

  auto stat = [&](int cs) {
    mbar_wait(full_addr + 8 * slot_s, phase_s);
    const float4* p = buf + slot_s * CHUNK4;
    if (cs == 0) {
      pivot = p[0].x;
      s = 0.f;
      ss = 0.f;
    }
    accumulate(p[t], pivot, s, ss);
    accumulate(p[t + THREADS], pivot, s, ss);
    if (++slot_s == SLOTS) {
      slot_s = 0;
      phase_s ^= 1u;
    }
    if (cs == CPR - 1) {
#pragma unroll
      for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
        ss += __shfl_xor_sync(0xffffffffu, ss, o);
      }
      if ((t & 31) == 0) red[warp] = make_float2(s, ss);
    }
  };

  // Prologue: the statistics of row 0 and of the first three chunks of row 1.
#pragma unroll 1
  for (int c = 0; c < CPR; ++c) stat(c);
  __syncthreads();
  if (warp == 0) publish(red, pivot, words + blockIdx.x);
  if (rows > 1) {
#pragma unroll 1
    for (int c = 0; c < LEAD - CPR; ++c) stat(c);
  }
  if (warp == WARPS - 1) collect(words, &stat_sh, eps);
  __syncthreads();

#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    const float2 st = stat_sh;
    const float mean = st.x, rstd = st.y;
    float4* const yp = reinterpret_cast<float4*>(y + (int64_t)r * ROW + base) + t;
#pragma unroll
    for (int c = 0; c < CPR; ++c) {
      // The bias comes from L2; its latency hides behind the statistics below.
      const float4 b0 = ld_hint(bp + c * CHUNK4, pol_last);
      const float4 b1 = ld_hint(bp + c * CHUNK4 + THREADS, pol_last);

      if (c == CPR - 1 && warp == WARPS - 1 && r + 1 < rows) {
        collect(words + (int64_t)(r + 1) * BLOCKS, &stat_sh, eps);
      }

      const int ahead = (c + LEAD) / CPR;
      if (r + ahead < rows) stat((c + LEAD) % CPR);

      const float4* p = buf + slot_n * CHUNK4;
      const float4 x0 = p[t];
      const float4 x1 = p[t + THREADS];
      __stcs(yp + c * CHUNK4, apply(x0, wr[2 * c], b0, mean, rstd));
      __stcs(yp + c * CHUNK4 + THREADS, apply(x1, wr[2 * c + 1], b1, mean, rstd));

      __syncthreads();   // everyone has read this slot

      if (t == 0) {
        const int j = r * CPR + c + SLOTS;
        if (j < total) {
          tma_load(buf_addr + slot_n * CHUNK_BYTES,
                   x + (int64_t)(j / CPR) * ROW + base + (j % CPR) * CHUNK,
                   full_addr + 8 * slot_n, pol_first);
        }
      }
      if (++slot_n == SLOTS) slot_n = 0;

      if ((c + LEAD) % CPR == CPR - 1 && warp == 0 && r + ahead < rows) {
        publish(red, pivot, words + (int64_t)(r + ahead) * BLOCKS + blockIdx.x);
      }
    }
  }
}

}  // namespace

torch::Tensor big_layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
  TORCH_CHECK(x.is_cuda() && w.is_cuda() && b.is_cuda(), "tensors must be on the GPU");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && w.scalar_type() == torch::kFloat32 &&
              b.scalar_type() == torch::kFloat32, "tensors must be float32");
  TORCH_CHECK(w.numel() == ROW && b.numel() == ROW, "unsupported normalized shape");
  TORCH_CHECK(x.numel() % ROW == 0, "x does not fit the normalized shape");
  const c10::cuda::CUDAGuard guard(x.device());
  x = x.contiguous();
  w = w.contiguous();
  b = b.contiguous();
  auto out = torch::empty_like(x);
  int rows = (int)(x.numel() / ROW);
  if (rows == 0) return out;

  auto words = torch::empty({(int64_t)rows * BLOCKS}, x.options().dtype(torch::kInt64));
  auto stream = at::cuda::getCurrentCUDAStream().stream();
  const size_t smem_bytes = (size_t)SLOTS * CHUNK_BYTES;
  static bool configured = false;
  if (!configured) {
    cudaError_t e = cudaFuncSetAttribute(big_layer_norm_kernel,
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         (int)smem_bytes);
    TORCH_CHECK(e == cudaSuccess, cudaGetErrorString(e));
    configured = true;
  }
  cudaError_t e = cudaMemsetAsync(words.data_ptr<int64_t>(), 0xFF,
                                  (size_t)rows * BLOCKS * sizeof(int64_t), stream);
  TORCH_CHECK(e == cudaSuccess, cudaGetErrorString(e));

  const float* xp = x.data_ptr<float>();
  const float* wp = w.data_ptr<float>();
  const float* bp = b.data_ptr<float>();
  float* yp = out.data_ptr<float>();
  unsigned long long* sp = reinterpret_cast<unsigned long long*>(words.data_ptr<int64_t>());
  float epsf = (float)eps;
  void* args[] = {(void*)&xp, (void*)&wp, (void*)&bp, (void*)&yp,
                  (void*)&sp, (void*)&rows, (void*)&epsf};
  e = cudaLaunchCooperativeKernel((const void*)big_layer_norm_kernel, dim3(BLOCKS), dim3(THREADS),
                                  args, smem_bytes, stream);
  TORCH_CHECK(e == cudaSuccess, cudaGetErrorString(e));
  return out;
}
"""

extension = load_inline(
    name="big_layer_norm_persistent",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["big_layer_norm"],
    extra_cuda_cflags=["-O3"],
)

ROW = 128 * 32768


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ln = self.ln
        w, b = ln.weight, ln.bias
        if (
            x.is_cuda
            and x.dtype == torch.float32
            and w.dtype == torch.float32
            and w.numel() == ROW
            and tuple(x.shape[-len(ln.normalized_shape):]) == tuple(ln.normalized_shape)
            and x.data_ptr() % 16 == 0
        ):
            return extension.big_layer_norm(x, w, b, ln.eps)
        return F.layer_norm(x, ln.normalized_shape, w, b, ln.eps)
