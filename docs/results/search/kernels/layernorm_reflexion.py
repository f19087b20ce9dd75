import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

CPP = (
    "torch::Tensor big_layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);"
)

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
#include <cstdint>

constexpr int BLOCKS = 128;              // blocks of the grid, all resident at once
constexpr int THREADS = 512;
constexpr int CHUNKS = 8;                // chunks of one row in one block
constexpr int VECS = 2;                  // float4 per thread and chunk
constexpr int CHUNK_VECS = THREADS * VECS;          // 1024 float4, 16 KB
constexpr int RING = 14;                 // chunks in shared memory
constexpr int AHEAD = RING - CHUNKS;     // chunks of the next row that fit beside a whole row
constexpr int LEAD = 3;                  // chunks by which the statistics lead the output
constexpr int SLICE_VECS = CHUNKS * CHUNK_VECS;     // float4 of a row in one block
constexpr int64_t ROW_VECS = (int64_t)BLOCKS * SLICE_VECS;
constexpr int64_t ROW = ROW_VECS * 4;    // 4194304
constexpr int SMEM_BYTES = RING * CHUNK_VECS * 16;  // 229376
static_assert(AHEAD == 6 && LEAD == 3, "the wait counts below assume these");

template <int N>
__device__ __forceinline__ void cp_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

__device__ __forceinline__ void cp_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}

__device__ __forceinline__ void cp_load(uint32_t dst, const float4* src, uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;\n" ::"r"(dst),
               "l"(src), "l"(policy)
               : "memory");
}

// Merges (mean, m2) of two sets of n values each.
__device__ __forceinline__ void merge_equal(float& mean, float& m2, float mo, float m2o, float n) {
  const float d = mo - mean;
  mean = 0.5f * (mean + mo);
  m2 = m2 + m2o + d * d * (0.5f * n);
}

// Waits for chunk c of a row (at most PENDING newer groups may be outstanding), adds its values.
// c is a constant wherever this is inlined.
template <int PENDING>
__device__ __forceinline__ void stats_chunk(const int c, const float4* ring, int& slot, int t,
                                            float& mean, float& m2) {
  cp_wait<PENDING>();
  const float4 a = ring[slot * CHUNK_VECS + t];
  const float4 b = ring[slot * CHUNK_VECS + THREADS + t];
  slot = (slot + 1 == RING) ? 0 : slot + 1;
  const float m = (((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w))) * 0.125f;
  float q0 = 0.f, q1 = 0.f, d;
  d = a.x - m; q0 = fmaf(d, d, q0);
  d = a.y - m; q1 = fmaf(d, d, q1);
  d = a.z - m; q0 = fmaf(d, d, q0);
  d = a.w - m; q1 = fmaf(d, d, q1);
  d = b.x - m; q0 = fmaf(d, d, q0);
  d = b.y - m; q1 = fmaf(d, d, q1);
  d = b.z - m; q0 = fmaf(d, d, q0);
  d = b.w - m; q1 = fmaf(d, d, q1);
  if (c == 0) {
    mean = m;
    m2 = q0 + q1;
  } else {
    const float share = 1.0f / (float)(c + 1);
    const float weight = 8.0f * (float)c / (float)(c + 1);
    const float delta = m - mean;
    mean = fmaf(delta, share, mean);
    m2 = m2 + (q0 + q1) + delta * delta * weight;
  }
}

// Reduces the block's statistics and publishes them as one 8-byte word.
__device__ __forceinline__ void publish(float mean, float m2, float2* red,
                                        unsigned long long* word, int t) {
  float n = 8.0f * CHUNKS;
#pragma unroll
  for (int off = 16; off > 0; off >>= 1) {
    const float mo = __shfl_xor_sync(0xffffffffu, mean, off);
    const float qo = __shfl_xor_sync(0xffffffffu, m2, off);
    merge_equal(mean, m2, mo, qo, n);
    n *= 2.0f;
  }
  if ((t & 31) == 0) red[t >> 5] = make_float2(mean, m2);
  __syncthreads();
  if (t < 32) {
    const float2 v = red[t & 15];
    mean = v.x;
    m2 = v.y;
#pragma unroll
    for (int off = 8; off > 0; off >>= 1) {
      const float mo = __shfl_xor_sync(0xffffffffu, mean, off);
      const float qo = __shfl_xor_sync(0xffffffffu, m2, off);
      merge_equal(mean, m2, mo, qo, n);
      n *= 2.0f;
    }
    if (t == 0) {
      unsigned long long p = ((unsigned long long)__float_as_uint(m2) << 32) |
                             (unsigned long long)__float_as_uint(mean);
      if (p == ~0ull) p = 0x7fffffff7fffffffull;  // NaN, but not the sentinel
      asm volatile("st.relaxed.gpu.global.u64 [%0], %1;\n" ::"l"(word), "l"(p) : "memory");
    }
  }
}

__global__ void __launch_bounds__(THREADS, 1)
big_layer_norm_kernel(const float4* __restrict__ x, const float4* __restrict__ w,
                      const float4* __restrict__ b, float4* __restrict__ out,
                      unsigned long long* words, int rows, float eps) {
  extern __shared__ __align__(128) float4 ring[];
  __shared__ float2 red[THREADS / 32];
  __shared__ float2 red_row[BLOCKS / 32];

  const int t = threadIdx.x;
  const int64_t base = (int64_t)blockIdx.x * SLICE_VECS + t;
  const float4* xp = x + base;
  float4* op = out + base;
  const float4* bp = b + base;
  const uint32_t ring_addr = (uint32_t)__cvta_generic_to_shared(ring) + (uint32_t)t * 16u;

  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;\n" : "=l"(policy));

  // Fill the ring.
#pragma unroll
  for (int j = 0; j < RING; ++j) {
    const int row = j / CHUNKS;
    if (row < rows) {
      const float4* src = xp + (int64_t)row * ROW_VECS + (j % CHUNKS) * CHUNK_VECS;
      const uint32_t dst = ring_addr + (uint32_t)(j * CHUNK_VECS * 16);
      cp_load(dst, src, policy);
      cp_load(dst + THREADS * 16, src + THREADS, policy);
    }
    cp_commit();
  }

  // The weights of this thread, kept for all rows.
  float4 wr[CHUNKS * VECS];
#pragma unroll
  for (int i = 0; i < CHUNKS * VECS; ++i) wr[i] = __ldg(w + base + i * THREADS);

  int slot_in = 0;   // next chunk for the statistics
  int slot_out = 0;  // next chunk to normalise
  float mean = 0.f, m2 = 0.f;

  stats_chunk<13>(0, ring, slot_in, t, mean, m2);
  stats_chunk<12>(1, ring, slot_in, t, mean, m2);
  stats_chunk<11>(2, ring, slot_in, t, mean, m2);
  stats_chunk<10>(3, ring, slot_in, t, mean, m2);
  stats_chunk<9>(4, ring, slot_in, t, mean, m2);
  stats_chunk<8>(5, ring, slot_in, t, mean, m2);
  stats_chunk<7>(6, ring, slot_in, t, mean, m2);
  stats_chunk<6>(7, ring, slot_in, t, mean, m2);
  publish(mean, m2, red, words + blockIdx.x, t);

#pragma unroll 1
  for (int r = 0; r < rows; ++r) {
    const bool more = r + 1 < rows;

    float4 bb[2][VECS];
#pragma unroll
    for (int k = 0; k < VECS; ++k) bb[0][k] = __ldg(bp + k * THREADS);

    // The first LEAD chunks of the next row; later ones stay in flight.
    // Groups committed so far: 14 + 8r, so chunk 8(r+1)+s has 5-s newer ones.
    if (more) {
      stats_chunk<5>(0, ring, slot_in, t, mean, m2);
      stats_chunk<4>(1, ring, slot_in, t, mean, m2);
      stats_chunk<3>(2, ring, slot_in, t, mean, m2);
    }

    // Gather the statistics of row r, published in the middle of the previous row's output.
    constexpr float block_n = (float)SLICE_VECS * 4.0f;
    if (t < BLOCKS) {
      const unsigned long long* word = words + (int64_t)r * BLOCKS + t;
      unsigned long long p;
      do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];\n" : "=l"(p) : "l"(word) : "memory");
      } while (p == ~0ull);
      __syncwarp();
      float rm = __uint_as_float((unsigned)(p & 0xffffffffull));
      float rq = __uint_as_float((unsigned)(p >> 32));
      float n = block_n;
#pragma unroll
      for (int off = 16; off > 0; off >>= 1) {
        const float mo = __shfl_xor_sync(0xffffffffu, rm, off);
        const float qo = __shfl_xor_sync(0xffffffffu, rq, off);
        merge_equal(rm, rq, mo, qo, n);
        n *= 2.0f;
      }
      if ((t & 31) == 0) red_row[t >> 5] = make_float2(rm, rq);
    }
    __syncthreads();
    float2 s0 = red_row[0], s1 = red_row[1], s2 = red_row[2], s3 = red_row[3];
    merge_equal(s0.x, s0.y, s1.x, s1.y, block_n * 32.0f);
    merge_equal(s2.x, s2.y, s3.x, s3.y, block_n * 32.0f);
    merge_equal(s0.x, s0.y, s2.x, s2.y, block_n * 64.0f);
    const float mu = s0.x;
    const float rstd = rsqrtf(s0.y * (1.0f / (float)ROW) + eps);

    float4* orow = op + (int64_t)r * ROW_VECS;
#pragma unroll
    for (int c = 0; c < CHUNKS; ++c) {
      if (c + 1 < CHUNKS) {
#pragma unroll
        for (int k = 0; k < VECS; ++k)
          bb[(c + 1) & 1][k] = __ldg(bp + (c + 1) * CHUNK_VECS + k * THREADS);
      }
#pragma unroll
      for (int k = 0; k < VECS; ++k) {
        const float4 v = ring[slot_out * CHUNK_VECS + k * THREADS + t];
        const float4 g = wr[c * VECS + k];
        const float4 h = bb[c & 1][k];
        float4 o;
        o.x = fmaf((v.x - mu) * rstd, g.x, h.x);
        o.y = fmaf((v.y - mu) * rstd, g.y, h.y);
        o.z = fmaf((v.z - mu) * rstd, g.z, h.z);
        o.w = fmaf((v.w - mu) * rstd, g.w, h.w);
        __stcs(orow + c * CHUNK_VECS + k * THREADS, o);
      }
      // This thread alone used its part of the slot: refill it.
      const int row = r + (c + RING) / CHUNKS;
      if (row < rows) {
        const float4* src = xp + (int64_t)row * ROW_VECS + ((c + RING) % CHUNKS) * CHUNK_VECS;
        const uint32_t dst = ring_addr + (uint32_t)(slot_out * CHUNK_VECS * 16);
        cp_load(dst, src, policy);
        cp_load(dst + THREADS * 16, src + THREADS, policy);
      }
      cp_commit();
      slot_out = (slot_out + 1 == RING) ? 0 : slot_out + 1;

      // Statistics of the next row, LEAD chunks ahead: 15 + 8r + c groups are committed, so
      // chunk 8(r+1) + c + LEAD has 6 - LEAD = 3 newer ones.
      if (c + LEAD < CHUNKS) {
        if (more) {
          stats_chunk<AHEAD - LEAD>(c + LEAD, ring, slot_in, t, mean, m2);
          if (c + LEAD == CHUNKS - 1)
            publish(mean, m2, red, words + (int64_t)(r + 1) * BLOCKS + blockIdx.x, t);
        }
      }
    }
  }
  cp_wait<0>();
}

static torch::Tensor aligned(torch::Tensor v) {
  v = v.contiguous();
  if (reinterpret_cast<uintptr_t>(v.data_ptr()) % 16 != 0) v = v.clone();
  return v;
}

torch::Tensor big_layer_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
  TORCH_CHECK(x.is_cuda() && w.is_cuda() && b.is_cuda(), "inputs must be on the GPU");
  TORCH_CHECK(x.scalar_type() == torch::kFloat32 && w.scalar_type() == torch::kFloat32 &&
                  b.scalar_type() == torch::kFloat32,
              "inputs must be float32");
  TORCH_CHECK(w.numel() == ROW && b.numel() == ROW, "unsupported normalized shape");
  TORCH_CHECK(x.numel() % ROW == 0, "x does not fit the normalized shape");
  const c10::cuda::CUDAGuard guard(x.device());
  x = aligned(x);
  w = aligned(w);
  b = aligned(b);
  auto out = torch::empty_like(x);
  int rows = (int)(x.numel() / ROW);
  if (rows == 0) return out;

  auto stream = at::cuda::getCurrentCUDAStream();
  auto buffer = torch::empty({(int64_t)rows * BLOCKS}, x.options().dtype(torch::kInt64));
  auto* words = reinterpret_cast<unsigned long long*>(buffer.data_ptr<int64_t>());
  cudaError_t err = cudaMemsetAsync(words, 0xff, (size_t)rows * BLOCKS * 8, stream.stream());
  TORCH_CHECK(err == cudaSuccess, cudaGetErrorString(err));
  err = cudaFuncSetAttribute(big_layer_norm_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             SMEM_BYTES);
  TORCH_CHECK(err == cudaSuccess, cudaGetErrorString(err));

  const float4* xp = reinterpret_cast<const float4*>(x.data_ptr<float>());
  const float4* wp = reinterpret_cast<const float4*>(w.data_ptr<float>());
  const float4* bp = reinterpret_cast<const float4*>(b.data_ptr<float>());
  float4* op = reinterpret_cast<float4*>(out.data_ptr<float>());
  float eps_f = (float)eps;
  void* args[] = {(void*)&xp, (void*)&wp, (void*)&bp, (void*)&op,
                  (void*)&words, (void*)&rows, (void*)&eps_f};
  err = cudaLaunchCooperativeKernel((const void*)big_layer_norm_kernel, dim3(BLOCKS),
                                    dim3(THREADS), args, (size_t)SMEM_BYTES, stream.stream());
  TORCH_CHECK(err == cudaSuccess, cudaGetErrorString(err));
  return out;
}
"""

extension = load_inline(
    name="big_layer_norm_pipelined",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["big_layer_norm"],
    extra_cuda_cflags=["-O3"],
)

ROW = 128 * 8 * 1024 * 4


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)
        self._fits = {}

    def _device_fits(self, device: torch.device) -> bool:
        fits = self._fits.get(device)
        if fits is None:
            p = torch.cuda.get_device_properties(device)
            fits = p.multi_processor_count >= 128 and p.major >= 9
            self._fits[device] = fits
        return fits

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ln = self.ln
        shape = tuple(ln.normalized_shape)
        w, b = ln.weight, ln.bias
        if (
            x.is_cuda
            and x.dtype == torch.float32
            and w.dtype == torch.float32
            and w.numel() == ROW
            and tuple(x.shape[-len(shape):]) == shape
            and self._device_fits(x.device)
        ):
            return extension.big_layer_norm(x, w, b, ln.eps)
        return F.layer_norm(x, shape, w, b, ln.eps)
