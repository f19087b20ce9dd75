# source: the complete new file
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP_SRC = """
torch::Tensor conv_gn_pool_clamp(torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                 torch::Tensor gamma, torch::Tensor beta, torch::Tensor scale,
                                 double eps, double clamp_min, double clamp_max);
"""

CUDA_SRC = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAException.h>
#include <cstdint>
#include <cuda_fp16.h>

// Split-FP16 arithmetic: v = hi + lo, both fp16, about 22 bits together; w * x is computed as
// w_hi * x_hi + w_lo * x_hi + w_hi * x_lo with fp32 accumulation. The weights are multiplied by
// 64 before the split, which keeps their low parts out of fp16 subnormals; the factor is undone
// at the stores (powers of two: exact). Valid for |x| < 65504 and |w| < 1023.
#define W_SCALE 64.f

__device__ __forceinline__ void split2(float a, float b, uint32_t& hi, uint32_t& lo) {
  const __half2 h = __floats2half2_rn(a, b);  // a in the low 16 bits = even k
  const float2 f = __half22float2(h);
  const __half2 l = __floats2half2_rn(a - f.x, b - f.y);
  hi = *reinterpret_cast<const uint32_t*>(&h);
  lo = *reinterpret_cast<const uint32_t*>(&l);
}

__device__ __forceinline__ void ldsm4(uint32_t (&b)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
               : "r"(addr)
               : "memory");
}

__device__ __forceinline__ void mma_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                        uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---------------------------------------------------------------- kernel 0: pack the weights
// wp[half][f][mt][lane], f = 0..10; a fragment has tap TA in k 0..7 and tap TB in k 8..15:
//   f = kh*3+0: (kh,0),(kh,1) hi    f = kh*3+1: (kh,0),(kh,1) lo    f = kh*3+2: (kh,2),(kh,2) hi
//   f = 9:      (0,2),(1,2)   lo    f = 10:     (2,2),(2,2)   lo
__global__ void pack_kernel(const float* __restrict__ w, const float* __restrict__ gamma,
                            const float* __restrict__ scale, float4* __restrict__ wp) {
  for (int idx = blockIdx.x * blockDim.x + threadIdx.x; idx < 1408;
       idx += gridDim.x * blockDim.x) {
    const int lane = idx & 31;
    const int mt = (idx >> 5) & 1;
    const int f = (idx >> 6) % 11;
    const int hf = idx / 704;
    const int g = lane >> 2, t = lane & 3;
    const int oc0 = hf * 32 + g * 4 + mt * 2;
    const int oc1 = oc0 + 1;

    int ta, tb;
    bool low;
    if (f < 9) {
      const int kh = f / 3;
      const int kind = f % 3;
      ta = (kind == 2) ? kh * 3 + 2 : kh * 3;
      tb = (kind == 2) ? kh * 3 + 2 : kh * 3 + 1;
      low = (kind == 1);
    } else if (f == 9) {
      ta = 2;
      tb = 5;
      low = true;
    } else {
      ta = 8;
      tb = 8;
      low = true;
    }

    const float s0 = (gamma[oc0] * scale[oc0] < 0.f) ? -W_SCALE : W_SCALE;
    const float s1 = (gamma[oc1] * scale[oc1] < 0.f) ? -W_SCALE : W_SCALE;
    const float* w0 = w + oc0 * 72 + 2 * t * 9;
    const float* w1 = w + oc1 * 72 + 2 * t * 9;
    uint4 h, l;
    split2(s0 * w0[ta], s0 * w0[9 + ta], h.x, l.x);
    split2(s1 * w1[ta], s1 * w1[9 + ta], h.y, l.y);
    split2(s0 * w0[tb], s0 * w0[9 + tb], h.z, l.z);
    split2(s1 * w1[tb], s1 * w1[9 + tb], h.w, l.w);
    uint4 v;
    v.x = low ? l.x : h.x;
    v.y = low ? l.y : h.y;
    v.z = low ? l.z : h.z;
    v.w = low ? l.w : h.w;
    reinterpret_cast<uint4*>(wp)[idx] = v;
  }
}

// ------------------------------------------- kernel 1: conv + bias + statistics + 4x4 max pool
__global__ void __launch_bounds__(128, 3)
conv_pool_kernel(const float* __restrict__ x, const float4* __restrict__ wp,
                 const float* __restrict__ bias, const float* __restrict__ gamma,
                 const float* __restrict__ scale, float* __restrict__ out,
                 float2* __restrict__ part) {
  // plane 0: fp16 high parts of all 8 channels of a pixel; plane 1: the low parts
  __shared__ __align__(16) uint4 sx[2][10][130];

  const int tid = threadIdx.x;
  const int strip = blockIdx.x;
  const int n = blockIdx.y;
  const int row0 = strip * 8;

  // ---- stage 10 input rows, split into high and low fp16 parts
  {
    const float* xb = x + (size_t)n * 8 * 16384 + (size_t)row0 * 128 + tid;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      float v[5][8];
#pragma unroll
      for (int r = 0; r < 5; ++r) {
        const int rr = p * 5 + r;
        const bool ok = row0 + rr < 128;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          v[r][i] = ok ? __ldg(xb + i * 16384 + rr * 128) : 0.f;
        }
      }
#pragma unroll
      for (int r = 0; r < 5; ++r) {
        const int rr = p * 5 + r;
        uint4 h, l;
        split2(v[r][0], v[r][1], h.x, l.x);
        split2(v[r][2], v[r][3], h.y, l.y);
        split2(v[r][4], v[r][5], h.z, l.z);
        split2(v[r][6], v[r][7], h.w, l.w);
        sx[0][rr][tid] = h;
        sx[1][rr][tid] = l;
      }
    }
    if (tid < 40) {
      const int p = tid / 20;
      const int r = (tid % 20) >> 1;
      sx[p][r][128 + (tid & 1)] = make_uint4(0u, 0u, 0u, 0u);
    }
  }
  __syncthreads();

  const int lane = tid & 31;
  const int warp = tid >> 5;
  const int hf = warp >> 1;
  const int colhalf = warp & 1;
  const int g = lane >> 2, t = lane & 3;

  // ---- A fragments (high and low parts), resident for the whole block
  uint32_t A[11][2][4];
  {
    const float4* wpl = wp + hf * 704 + lane;
#pragma unroll
    for (int f = 0; f < 11; ++f) {
#pragma unroll
      for (int mt = 0; mt < 2; ++mt) {
        const float4 v = __ldg(wpl + (f * 2 + mt) * 32);
        A[f][mt][0] = __float_as_uint(v.x);
        A[f][mt][1] = __float_as_uint(v.y);
        A[f][mt][2] = __float_as_uint(v.z);
        A[f][mt][3] = __float_as_uint(v.w);
      }
    }
  }
  float sb[4], sg[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int oc = hf * 32 + g * 4 + j;
    sg[j] = (__ldg(gamma + oc) * __ldg(scale + oc) < 0.f) ? -1.f : 1.f;
    sb[j] = sg[j] * __ldg(bias + oc) * W_SCALE;
  }

  const bool odd = (t & 1) != 0;
  float* obase = out + (size_t)(n * 64 + hf * 32 + g * 4 + (odd ? 2 : 0)) * 961;

  // {hi kw0, hi kw1, lo kw0, lo kw1} of one row
  const uint32_t a01 = (uint32_t)__cvta_generic_to_shared(
      &sx[lane >> 4][0][(lane & 7) + ((lane >> 3) & 1)]);
  // {hi r, lo r, hi r+1, lo r+1} at kw 2
  const uint32_t a2 = (uint32_t)__cvta_generic_to_shared(
      &sx[(lane >> 3) & 1][lane >> 4][(lane & 7) + 2]);
  // {hi r, hi r+1, hi r+1, hi r+2} at kw 2
  const uint32_t ah2 = (uint32_t)__cvta_generic_to_shared(
      &sx[0][((lane >> 3) & 1) + (lane >> 4)][(lane & 7) + 2]);

  float sum = 0.f, sumsq = 0.f;

#pragma unroll 1
  for (int u = 0; u < 2; ++u) {
    // Only strip 15, u = 1 (conv rows 124..127) is not full: rows 124 and 125 count there.
    const bool full = row0 + u * 4 + 4 <= 126;
    const int pr = strip * 2 + u;
#pragma unroll 1
    for (int tt = 0; tt < 8; ++tt) {
      const int tile = colhalf * 8 + tt;
      const uint32_t toff = (uint32_t)((u * 4 * 130 + tile * 8) * 16);
      const uint32_t p01 = a01 + toff;
      const uint32_t p2 = a2 + toff;
      const uint32_t ph2 = ah2 + toff;

      float acc[4][2][4];
#pragma unroll
      for (int o = 0; o < 4; ++o) {
#pragma unroll
        for (int mt = 0; mt < 2; ++mt) {
          acc[o][mt][0] = sb[mt * 2];
          acc[o][mt][1] = sb[mt * 2];
          acc[o][mt][2] = sb[mt * 2 + 1];
          acc[o][mt][3] = sb[mt * 2 + 1];
        }
      }

#pragma unroll
      for (int rp = 0; rp < 6; rp += 2) {
        uint32_t c[4];
        ldsm4(c, p2 + (uint32_t)(rp * 2080));
#pragma unroll
        for (int q = 0; q < 2; ++q) {
          const int ir = rp + q;
          uint32_t b[4];
          ldsm4(b, p01 + (uint32_t)(ir * 2080));
#pragma unroll
          for (int term = 0; term < 5; ++term) {
#pragma unroll
            for (int o = 0; o < 4; ++o) {
              const int kh = ir - o;
              if (kh >= 0 && kh < 3) {
#pragma unroll
                for (int mt = 0; mt < 2; ++mt) {
                  if (term == 0) {
                    // w_lo * x_hi, kw 0 and 1
                    mma_f16(acc[o][mt], A[kh * 3 + 1][mt], b[0], b[1]);
                  } else if (term == 1) {
                    // w_hi * x_lo, kw 0 and 1
                    mma_f16(acc[o][mt], A[kh * 3][mt], b[2], b[3]);
                  } else if (term == 2) {
                    // w_lo * (x_hi + x_lo), tap (2,2)
                    if (kh == 2) mma_f16(acc[o][mt], A[10][mt], c[2 * q], c[2 * q + 1]);
                  } else if (term == 3) {
                    // w_hi * (x_hi + x_lo), kw 2
                    mma_f16(acc[o][mt], A[kh * 3 + 2][mt], c[2 * q], c[2 * q + 1]);
                  } else {
                    // w_hi * x_hi, kw 0 and 1
                    mma_f16(acc[o][mt], A[kh * 3][mt], b[0], b[1]);
                  }
                }
              }
            }
          }
        }
      }

      // w_lo * x_hi, taps (0,2) and (1,2)
#pragma unroll
      for (int r = 0; r < 4; r += 2) {
        uint32_t e[4];
        ldsm4(e, ph2 + (uint32_t)(r * 2080));
#pragma unroll
        for (int mt = 0; mt < 2; ++mt) {
          mma_f16(acc[r][mt], A[9][mt], e[0], e[1]);
          mma_f16(acc[r + 1][mt], A[9][mt], e[2], e[3]);
        }
      }

      // ---- statistics (of 64 times the values)
      float s[4], q2[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int mt = j >> 1, c = (j & 1) * 2;
        const float y0 = acc[0][mt][c], y1 = acc[0][mt][c + 1];
        const float y2 = acc[1][mt][c], y3 = acc[1][mt][c + 1];
        s[j] = (y0 + y1) + (y2 + y3);
        q2[j] = fmaf(y3, y3, fmaf(y2, y2, fmaf(y1, y1, y0 * y0)));
      }
      if (full) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int mt = j >> 1, c = (j & 1) * 2;
          const float y0 = acc[2][mt][c], y1 = acc[2][mt][c + 1];
          const float y2 = acc[3][mt][c], y3 = acc[3][mt][c + 1];
          s[j] += (y0 + y1) + (y2 + y3);
          q2[j] = fmaf(y3, y3, fmaf(y2, y2, fmaf(y1, y1, fmaf(y0, y0, q2[j]))));
        }
      }
      const float ts = fmaf(s[0], sg[0], s[1] * sg[1]) + fmaf(s[2], sg[2], s[3] * sg[3]);
      const float tq = (q2[0] + q2[1]) + (q2[2] + q2[3]);
      if (!(tile == 15 && t == 3)) {
        sum += ts;
        sumsq += tq;
      }

      // ---- max over 4 rows x 2 columns, then over the lane pair
      float m[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int mt = j >> 1, c = (j & 1) * 2;
        const float m0 = fmaxf(acc[0][mt][c], acc[0][mt][c + 1]);
        const float m1 = fmaxf(acc[1][mt][c], acc[1][mt][c + 1]);
        const float m2 = fmaxf(acc[2][mt][c], acc[2][mt][c + 1]);
        const float m3 = fmaxf(acc[3][mt][c], acc[3][mt][c + 1]);
        m[j] = fmaxf(fmaxf(m0, m1), fmaxf(m2, m3));
      }
      const float s0 = odd ? m[0] : m[2];
      const float s1 = odd ? m[1] : m[3];
      float k0 = odd ? m[2] : m[0];
      float k1 = odd ? m[3] : m[1];
      k0 = fmaxf(k0, __shfl_xor_sync(0xffffffffu, s0, 1));
      k1 = fmaxf(k1, __shfl_xor_sync(0xffffffffu, s1, 1));
      const int pc = tile * 2 + (t >> 1);
      if (pr < 31 && pc < 31) {
        float* o = obase + pr * 31 + pc;
        o[0] = k0 * (1.f / 64.f);
        o[961] = k1 * (1.f / 64.f);
      }
    }
  }

  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sumsq += __shfl_xor_sync(0xffffffffu, sumsq, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  sumsq += __shfl_xor_sync(0xffffffffu, sumsq, 2);
  if (t == 0) {
    part[(size_t)(n * 16 + hf * 8 + g) * 32 + strip * 2 + colhalf] =
        make_float2(sum * (1.f / 64.f), sumsq * (1.f / 4096.f));
  }
}

// --------------------------------------------------- kernel 2: normalise, scale, clamp in place
__device__ __forceinline__ float pick(int e, const float (&v)[4]) {
  return e < 1922 ? (e < 961 ? v[0] : v[1]) : (e < 2883 ? v[2] : v[3]);
}

__global__ void __launch_bounds__(256)
finish_kernel(float* out, const float2* __restrict__ part, const float* __restrict__ gamma,
              const float* __restrict__ beta, const float* __restrict__ scale, float eps,
              float lo, float hi) {
  // Reverse order: what kernel 1 wrote last is the likeliest to be in L2.
  const int b = (int)gridDim.x - 1 - (int)blockIdx.x;
  const int tid = threadIdx.x;
  const int lane = tid & 31;
  float4* data = reinterpret_cast<float4*>(out + (size_t)b * 3844);

  float4 v[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = tid + k * 256;
    v[k] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (i < 961) v[k] = data[i];
  }

  const float2 p = part[(size_t)b * 32 + lane];
  double s = (double)p.x, q = (double)p.y;
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    s += __shfl_xor_sync(0xffffffffu, s, d);
    q += __shfl_xor_sync(0xffffffffu, q, d);
  }
  const double inv = 1.0 / 63504.0;
  const double mean_d = s * inv;
  const float var = fmaxf((float)(q * inv - mean_d * mean_d), 0.f);
  const float mean = (float)mean_d;
  const float rstd = rsqrtf(var + eps);

  float ca[4], cb[4];
  const int c0 = (b & 15) * 4;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float ga = __ldg(gamma + c0 + j);
    const float sc = __ldg(scale + c0 + j);
    const float be = __ldg(beta + c0 + j);
    ca[j] = fabsf(ga * sc) * rstd;
    cb[j] = (be - mean * rstd * ga) * sc;
  }

#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = tid + k * 256;
    if (i < 961) {
      const int e = i * 4;
      float4 r;
      r.x = fminf(fmaxf(fmaf(v[k].x, pick(e, ca), pick(e, cb)), lo), hi);
      r.y = fminf(fmaxf(fmaf(v[k].y, pick(e + 1, ca), pick(e + 1, cb)), lo), hi);
      r.z = fminf(fmaxf(fmaf(v[k].z, pick(e + 2, ca), pick(e + 2, cb)), lo), hi);
      r.w = fminf(fmaxf(fmaf(v[k].w, pick(e + 3, ca), pick(e + 3, cb)), lo), hi);
      data[i] = r;
    }
  }
}

static void check_param(const torch::Tensor& p, int64_t numel, const char* name) {
  TORCH_CHECK(p.is_cuda() && p.scalar_type() == torch::kFloat32, name,
              " must be a float32 CUDA tensor");
  TORCH_CHECK(p.numel() == numel, name, " has the wrong number of elements");
}

torch::Tensor conv_gn_pool_clamp(torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                 torch::Tensor gamma, torch::Tensor beta, torch::Tensor scale,
                                 double eps, double clamp_min, double clamp_max) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32,
              "x must be a float32 CUDA tensor");
  TORCH_CHECK(x.dim() == 4 && x.size(1) == 8 && x.size(2) == 128 && x.size(3) == 128,
              "x must have shape (N, 8, 128, 128)");
  TORCH_CHECK(weight.dim() == 4 && weight.size(0) == 64 && weight.size(1) == 8 &&
                  weight.size(2) == 3 && weight.size(3) == 3,
              "weight must have shape (64, 8, 3, 3)");
  check_param(weight, 4608, "weight");
  check_param(bias, 64, "bias");
  check_param(gamma, 64, "gamma");
  check_param(beta, 64, "beta");
  check_param(scale, 64, "scale");
  const c10::cuda::CUDAGuard guard(x.device());

  x = x.contiguous();
  weight = weight.contiguous();
  bias = bias.contiguous();
  gamma = gamma.contiguous();
  beta = beta.contiguous();
  scale = scale.contiguous();

  const int64_t N = x.size(0);
  TORCH_CHECK(N <= 65535, "batch too large");
  auto opts = x.options();
  auto out = torch::empty({N, 64, 31, 31}, opts);
  if (N == 0) return out;
  auto part = torch::empty({N * 16 * 32 * 2}, opts);
  auto wp = torch::empty({2 * 4608}, opts);

  cudaStream_t stream = c10::cuda::getCurrentCUDAStream().stream();

  pack_kernel<<<9, 128, 0, stream>>>(weight.data_ptr<float>(), gamma.data_ptr<float>(),
                                     scale.data_ptr<float>(),
                                     reinterpret_cast<float4*>(wp.data_ptr<float>()));
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  conv_pool_kernel<<<dim3(16, (unsigned)N), 128, 0, stream>>>(
      x.data_ptr<float>(), reinterpret_cast<const float4*>(wp.data_ptr<float>()),
      bias.data_ptr<float>(), gamma.data_ptr<float>(), scale.data_ptr<float>(),
      out.data_ptr<float>(), reinterpret_cast<float2*>(part.data_ptr<float>()));
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  finish_kernel<<<(unsigned)(N * 16), 256, 0, stream>>>(
      out.data_ptr<float>(), reinterpret_cast<const float2*>(part.data_ptr<float>()),
      gamma.data_ptr<float>(), beta.data_ptr<float>(), scale.data_ptr<float>(), (float)eps,
      (float)clamp_min, (float)clamp_max);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""

extension = load_inline(
    name="conv_gn_pool_clamp_3xtf32",
    cpp_sources=CPP_SRC,
    cuda_sources=CUDA_SRC,
    functions=["conv_gn_pool_clamp"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    """
    Model that performs convolution, group normalization, scaling, max pooling, and clamping,
    in three CUDA kernels (pack weights; conv + statistics + pooling; normalise + clamp).
    """
    def __init__(self, in_channels, out_channels, kernel_size, num_groups, scale_shape, maxpool_kernel_size, clamp_min, clamp_max):
        super(ModelNew, self).__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)
        self.scale = nn.Parameter(torch.ones(scale_shape))
        self.maxpool = nn.MaxPool2d(kernel_size=maxpool_kernel_size)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max
        if num_groups != 16 or maxpool_kernel_size != 4:
            raise ValueError("ModelNew is written for 16 groups and 4x4 pooling")

    def forward(self, x):
        """
        Args:
            x: Input tensor of shape (batch_size, in_channels, height, width).
        Returns:
            Output tensor of shape (batch_size, out_channels, height', width').
        """
        return extension.conv_gn_pool_clamp(
            x,
            self.conv.weight,
            self.conv.bias,
            self.group_norm.weight,
            self.group_norm.bias,
            self.scale,
            self.group_norm.eps,
            self.clamp_min,
            self.clamp_max,
        )

batch_size = 128
in_channels = 8
out_channels = 64
height, width = 128, 128 
kernel_size = 3
num_groups = 16
scale_shape = (out_channels, 1, 1)
maxpool_kernel_size = 4
clamp_min = 0.0
clamp_max = 1.0

def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]

def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups, scale_shape, maxpool_kernel_size, clamp_min, clamp_max]
