import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline

CPP = """
torch::Tensor fused_conv_gn_pool(torch::Tensor x, torch::Tensor w, torch::Tensor cb,
    torch::Tensor gw, torch::Tensor gb, torch::Tensor scale, double eps, double lo, double hi);
"""

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <float.h>

#define RS 132
#define ROWS 10
#define CS (RS * ROWS)
#define STRIPS 16

__device__ __forceinline__ unsigned pack2(float a, float b) {
  __half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<unsigned*>(&h);
}

__device__ __forceinline__ void mma16(float* c, const uint4& a, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma8(float* c, unsigned a0, unsigned a1, unsigned b0) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

// packed[(m*5 + step)*32 + lane] : four fragment registers
__global__ void pack_kernel(const float* __restrict__ w, const float* __restrict__ gw,
                            const float* __restrict__ scale, uint4* __restrict__ packed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 640) return;
  int lane = i & 31, ms = i >> 5;
  int m = ms / 5, st = ms % 5;
  int g = lane >> 2, t = lane & 3;
  unsigned r[4];
  for (int j = 0; j < 4; j++) {
    int oc = m * 16 + g + (j & 1) * 8;
    int tap = st * 2 + (j >> 1);
    float a = 0.f, b = 0.f;
    if (tap < 9) {
      float s = (gw[oc] * scale[oc] < 0.f) ? -1.f : 1.f;
      a = s * w[(oc * 8 + 2 * t) * 9 + tap];
      b = s * w[(oc * 8 + 2 * t + 1) * 9 + tap];
    }
    r[j] = pack2(a, b);
  }
  packed[i] = make_uint4(r[0], r[1], r[2], r[3]);
}

__global__ void __launch_bounds__(128, 3)
conv_kernel(const float* __restrict__ x, const uint4* __restrict__ packed,
            const float* __restrict__ cb, const float* __restrict__ gw,
            const float* __restrict__ scale, float* __restrict__ out,
            float* __restrict__ part) {
  __shared__ __align__(16) unsigned tile[4 * CS];
  __shared__ float pooled[64 * 62];
  __shared__ float red[4][32];
  const int strip = blockIdx.x, n = blockIdx.y;
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int g = lane >> 2, t = lane & 3;
  const int y0 = strip * 8;
  const float* xn = x + (size_t)n * 8 * 16384;

#pragma unroll 5
  for (int k = 0; k < 10; k++) {
    int i = tid + k * 128;
    int c4 = i & 31, rr = i >> 5;
    int cp = rr / ROWS, row = rr % ROWS;
    float4 a = make_float4(0.f, 0.f, 0.f, 0.f), b = a;
    if (y0 + row < 128) {
      const float* p = xn + (size_t)(2 * cp) * 16384 + (y0 + row) * 128 + c4 * 4;
      a = __ldg(reinterpret_cast<const float4*>(p));
      b = __ldg(reinterpret_cast<const float4*>(p + 16384));
    }
    *reinterpret_cast<uint4*>(&tile[cp * CS + row * RS + c4 * 4]) =
        make_uint4(pack2(a.x, b.x), pack2(a.y, b.y), pack2(a.z, b.z), pack2(a.w, b.w));
  }
  if (tid < 40) {
    *reinterpret_cast<uint4*>(&tile[(tid / ROWS) * CS + (tid % ROWS) * RS + 128]) =
        make_uint4(0u, 0u, 0u, 0u);
  }

  uint4 A[4][4];
  uint2 A8[4];
  float bias[8], sum[8], sq[8];
#pragma unroll
  for (int m = 0; m < 4; m++) {
#pragma unroll
    for (int s = 0; s < 4; s++) A[m][s] = __ldg(&packed[(m * 5 + s) * 32 + lane]);
    uint4 l = __ldg(&packed[(m * 5 + 4) * 32 + lane]);
    A8[m] = make_uint2(l.x, l.y);
  }
#pragma unroll
  for (int j = 0; j < 8; j++) {
    int oc = (j >> 1) * 16 + (j & 1) * 8 + g;
    float s = (gw[oc] * scale[oc] < 0.f) ? -1.f : 1.f;
    bias[j] = s * cb[oc];
    sum[j] = 0.f;
    sq[j] = 0.f;
  }
  __syncthreads();

#pragma unroll 1
  for (int u = warp; u < 32; u += 4) {
    const int pr = u >> 4, ct = u & 15;
    const unsigned* base = tile + t * CS + (pr * 4) * RS + ct * 8 + g;
    const bool colok = ct * 8 + 2 * t < 126;
    float mx[8];
#pragma unroll
    for (int j = 0; j < 8; j++) mx[j] = -FLT_MAX;
#pragma unroll
    for (int r = 0; r < 4; r++) {
      unsigned b[9];
#pragma unroll
      for (int k = 0; k < 9; k++) b[k] = base[(r + k / 3) * RS + k % 3];
      float acc[4][4];
#pragma unroll
      for (int m = 0; m < 4; m++) {
        acc[m][0] = acc[m][1] = bias[2 * m];
        acc[m][2] = acc[m][3] = bias[2 * m + 1];
      }
#pragma unroll
      for (int s = 0; s < 4; s++) {
#pragma unroll
        for (int m = 0; m < 4; m++) mma16(acc[m], A[m][s], b[2 * s], b[2 * s + 1]);
      }
#pragma unroll
      for (int m = 0; m < 4; m++) mma8(acc[m], A8[m].x, A8[m].y, b[8]);
      const bool ok = colok && (y0 + pr * 4 + r < 126);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        float v0 = acc[j >> 1][(j & 1) * 2], v1 = acc[j >> 1][(j & 1) * 2 + 1];
        mx[j] = fmaxf(mx[j], fmaxf(v0, v1));
        if (ok) {
          sum[j] += v0 + v1;
          sq[j] = fmaf(v0, v0, fmaf(v1, v1, sq[j]));
        }
      }
    }
    const int px = ct * 2 + (t >> 1);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      float v = fmaxf(mx[j], __shfl_xor_sync(0xffffffffu, mx[j], 1));
      if (!(t & 1) && px < 31) {
        pooled[((j >> 1) * 16 + (j & 1) * 8 + g) * 62 + pr * 31 + px] = v;
      }
    }
  }

#pragma unroll
  for (int j = 0; j < 8; j++) {
    int oc = (j >> 1) * 16 + (j & 1) * 8 + g;
    float s = (gw[oc] * scale[oc] < 0.f) ? -sum[j] : sum[j];
    float q = sq[j];
#pragma unroll
    for (int o = 1; o < 16; o <<= 1) {
      s += __shfl_xor_sync(0xffffffffu, s, o);
      q += __shfl_xor_sync(0xffffffffu, q, o);
    }
    if ((lane & 15) == 0) {
      int grp = j * 2 + (lane >> 4);
      red[warp][grp * 2] = s;
      red[warp][grp * 2 + 1] = q;
    }
  }
  __syncthreads();
  if (tid < 32) {
    part[((size_t)n * STRIPS + strip) * 32 + tid] =
        red[0][tid] + red[1][tid] + red[2][tid] + red[3][tid];
  }
  const int cnt = (strip == STRIPS - 1) ? 31 : 62;
  float* on = out + (size_t)n * 64 * 961 + strip * 62;
  const int l = tid & 63;
  if (l < cnt) {
    for (int c = tid >> 6; c < 64; c += 2) on[c * 961 + l] = pooled[c * 62 + l];
  }
}

__global__ void __launch_bounds__(256)
finish_kernel(float* __restrict__ out, const float* __restrict__ part,
              const float* __restrict__ gw, const float* __restrict__ gb,
              const float* __restrict__ scale, float eps, float lo, float hi) {
  __shared__ float mul[4], add[4];
  const int grp = blockIdx.x, n = blockIdx.y;
  if (threadIdx.x < 4) {
    double s = 0.0, q = 0.0;
#pragma unroll
    for (int i = 0; i < STRIPS; i++) {
      const float* p = part + ((size_t)n * STRIPS + i) * 32 + grp * 2;
      s += (double)p[0];
      q += (double)p[1];
    }
    const double inv = 1.0 / (4.0 * 126.0 * 126.0);
    double mean = s * inv;
    float var = fmaxf((float)(q * inv - mean * mean), 0.f);
    float rstd = rsqrtf(var + eps);
    int c = grp * 4 + threadIdx.x;
    float a = rstd * gw[c];
    float sc = scale[c];
    float sg = (gw[c] * sc < 0.f) ? -1.f : 1.f;
    mul[threadIdx.x] = a * sc * sg;
    add[threadIdx.x] = (gb[c] - (float)mean * a) * sc;
  }
  __syncthreads();
  float4* o = reinterpret_cast<float4*>(out + ((size_t)n * 16 + grp) * 3844);
  for (int i = threadIdx.x; i < 961; i += 256) {
    float4 v = o[i];
    float e[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; k++) {
      int c = (i * 4 + k) / 961;
      e[k] = fminf(fmaxf(fmaf(e[k], mul[c], add[c]), lo), hi);
    }
    o[i] = make_float4(e[0], e[1], e[2], e[3]);
  }
}

torch::Tensor fused_conv_gn_pool(torch::Tensor x, torch::Tensor w, torch::Tensor cb,
    torch::Tensor gw, torch::Tensor gb, torch::Tensor scale, double eps, double lo, double hi) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "x must be float32 on the GPU");
  TORCH_CHECK(x.dim() == 4 && x.size(1) == 8 && x.size(2) == 128 && x.size(3) == 128, "shape");
  TORCH_CHECK(w.numel() == 64 * 72 && scale.numel() == 64, "weights");
  const c10::cuda::CUDAGuard guard(x.device());
  x = x.contiguous(); w = w.contiguous(); cb = cb.contiguous();
  gw = gw.contiguous(); gb = gb.contiguous(); scale = scale.contiguous();
  const int n = (int)x.size(0);
  auto out = torch::empty({n, 64, 31, 31}, x.options());
  auto buf = torch::empty({640 * 4 + (int64_t)n * STRIPS * 32}, x.options());
  if (n == 0) return out;
  uint4* packed = reinterpret_cast<uint4*>(buf.data_ptr<float>());
  float* part = buf.data_ptr<float>() + 640 * 4;
  auto stream = at::cuda::getCurrentCUDAStream();
  pack_kernel<<<10, 64, 0, stream>>>(w.data_ptr<float>(), gw.data_ptr<float>(),
                                     scale.data_ptr<float>(), packed);
  conv_kernel<<<dim3(STRIPS, n), 128, 0, stream>>>(
      x.data_ptr<float>(), packed, cb.data_ptr<float>(), gw.data_ptr<float>(),
      scale.data_ptr<float>(), out.data_ptr<float>(), part);
  finish_kernel<<<dim3(16, n), 256, 0, stream>>>(
      out.data_ptr<float>(), part, gw.data_ptr<float>(), gb.data_ptr<float>(),
      scale.data_ptr<float>(), (float)eps, (float)lo, (float)hi);
  return out;
}
"""

extension = load_inline(
    name="fused_conv_gn_pool_ext",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["fused_conv_gn_pool"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, num_groups, scale_shape,
                 maxpool_kernel_size, clamp_min, clamp_max):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)
        self.scale = nn.Parameter(torch.ones(scale_shape))
        self.maxpool = nn.MaxPool2d(kernel_size=maxpool_kernel_size)
        self.clamp_min = clamp_min
        self.clamp_max = clamp_max
        self.fits = (
            in_channels == 8 and out_channels == 64 and kernel_size == 3 and num_groups == 16
            and tuple(scale_shape) == (64, 1, 1) and maxpool_kernel_size == 4
        )

    def forward(self, x):
        if (self.fits and x.is_cuda and x.dtype == torch.float32
                and tuple(x.shape[1:]) == (8, 128, 128)):
            with torch.no_grad():
                return extension.fused_conv_gn_pool(
                    x, self.conv.weight, self.conv.bias, self.group_norm.weight,
                    self.group_norm.bias, self.scale, self.group_norm.eps,
                    float(self.clamp_min), float(self.clamp_max))
        x = self.conv(x)
        x = self.group_norm(x)
        x = x * self.scale
        x = self.maxpool(x)
        return torch.clamp(x, self.clamp_min, self.clamp_max)
