import os

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = """
torch::Tensor conv_gn_pool(torch::Tensor x, torch::Tensor w, torch::Tensor bias,
                           torch::Tensor gamma, torch::Tensor beta, torch::Tensor scale,
                           double eps, double lo, double hi);
"""

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
#include <stdint.h>

constexpr int CI = 8, CO = 64, H = 128, W = 128, OH = 126, OW = 126, PH = 31, PW = 31;
constexpr int G = 16;
constexpr int SEG = 8;                    // blocks per image = cluster size
constexpr int RB = 4;                     // pool rows per block
constexpr int ROWS = RB * 4 + 2;          // input rows per block
constexpr int ROWB = W * 16;              // bytes of a row: 8 fp16, or 8 + 8 s8, a pixel
constexpr int PLANE = ROWS * ROWB;        // bytes of a plane
constexpr int BUF = 2 * PLANE;            // one buffer: fp16, and s8 or fp16 residuals
constexpr int WSLOT = CO * 16;            // bytes of one tap of the weights
constexpr int WPLANE = 10 * WSLOT;        // taps 0..7, zeros, tap 8
constexpr int WOFF = 2 * BUF;             // weights: fp16, s8, fp16 residuals
constexpr int POFF = WOFF + 3 * WPLANE;
constexpr int PROW = CO * 32;             // floats of one pool row
constexpr int SMEM_BYTES = POFF + RB * PROW * 4;
constexpr int NPX = ROWS * W / 256;       // pixels per producer thread: 9
constexpr int THREADS = 512;

// Scales: x is brought below 2^8, w below 2^15.  fp16 leaves at most 2^-4 of x and 2^3 of w.
// The four 8-bit operands use the factors below: all stay within +-127, and
// WL8 * X8 == W8 * XL8, so that both corrections share one integer sum.
constexpr int XTARGET = 7;
constexpr int WTARGET = 14;
constexpr float X8 = 127.f / 256.f;
constexpr float XL8 = 2032.f;
constexpr float W8 = 127.f / 32768.f;
constexpr float WL8 = 15.875f;
constexpr float UNDO = 32768.f / 258064.f;        // 1 / (WL8 * X8)
constexpr float MAGIC = 12582912.f;               // 1.5 * 2^23
constexpr uint32_t MAGIC_BITS = 0x4B400000u;

// The 8-bit corrections are good for tiles that fill their range: the average range of a
// thread's 72 values against the range of the tile.  Uniform values give 0.97.
constexpr float SPREAD = 0.75f;

// named barriers
constexpr int BAR_FULL = 1;               // + 2 * buffer + warpgroup
constexpr int BAR_DONE = 7;
constexpr int BAR_PROD = 8;
constexpr int BAR_TURN = 9;               // + warpgroup

__device__ __forceinline__ void bar_sync(int id, int count) {
  asm volatile("bar.sync %0, %1;\n" :: "r"(id), "r"(count) : "memory");
}
__device__ __forceinline__ void bar_arrive(int id, int count) {
  asm volatile("bar.arrive %0, %1;\n" :: "r"(id), "r"(count) : "memory");
}

// the power of two that brings a (>= 0) to about 2^target, at most 2^cap
__device__ __forceinline__ float pow2_scale(float a, int target, int cap) {
  const int e = (int)((__float_as_uint(a) >> 23) & 255u);
  int s = 254 + target - e;
  s = s > 127 + cap ? 127 + cap : s;
  s = s < 2 ? 2 : s;
  return __uint_as_float((uint32_t)s << 23);
}

__device__ __forceinline__ float pow2_inv(float s) {
  return __uint_as_float((254u << 23) - __float_as_uint(s));
}

// two floats to fp16: element 0 in the low half, element 1 in the high half
__device__ __forceinline__ uint32_t h2(float e0, float e1) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(e1), "f"(e0));
  return r;
}

// two floats to fp16, and what that leaves over
__device__ __forceinline__ void split2(float e0, float e1, uint32_t& hi, float& r0, float& r1) {
  hi = h2(e0, e1);
  float h0, h1;
  asm("{\n\t.reg .b16 a, b;\n\tmov.b32 {a, b}, %2;\n\tcvt.f32.f16 %0, a;\n\tcvt.f32.f16 %1, b;\n\t}"
      : "=f"(h0), "=f"(h1) : "r"(hi));
  r0 = e0 - h0;
  r1 = e1 - h1;
}

// e * s to the nearest integer, as two's complement in the low byte
__device__ __forceinline__ uint32_t s8(float e, float s) {
  return __float_as_uint(fmaf(e, s, MAGIC));
}

__device__ __forceinline__ uint16_t s8x2(float e0, float e1, float s) {
  return (uint16_t)__byte_perm(s8(e0, s), s8(e1, s), 0x0040);
}

__device__ __forceinline__ uint32_t s8x4(float e0, float e1, float e2, float e3, float s) {
  const uint32_t a = __byte_perm(s8(e0, s), s8(e1, s), 0x0040);
  const uint32_t b = __byte_perm(s8(e2, s), s8(e3, s), 0x0040);
  return __byte_perm(a, b, 0x5410);
}

__device__ __forceinline__ float ld_stream(const float* p) {
  float r;
  asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(r) : "l"(p));
  return r;
}

// No-swizzle K-major descriptor; address and leading offset (along K) in units of 16 bytes,
// 128 bytes from one group of 8 rows to the next.
__device__ __forceinline__ uint64_t mdesc(uint32_t addr, uint32_t lead) {
  return (uint64_t)(addr | (lead << 16)) | ((uint64_t)8 << 32);
}

#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
              "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define I8(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), \
              "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])

__device__ __forceinline__ void wgmma16(float (&d)[64], uint64_t da, uint64_t db) {
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      "setp.ne.b32 p, %66, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n\t"
      "}\n"
      : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)
      : "l"(da), "l"(db), "r"(1)
      : "memory");
}

__device__ __forceinline__ void wgmma8(uint32_t (&d)[64], uint64_t da, uint64_t db) {
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      "setp.ne.b32 p, %66, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p;\n\t"
      "}\n"
      : I8(0), I8(8), I8(16), I8(24), I8(32), I8(40), I8(48), I8(56)
      : "l"(da), "l"(db), "r"(1)
      : "memory");
}

__device__ __forceinline__ void pin(float (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}

__device__ __forceinline__ void pin(uint32_t (&d)[64]) {
#pragma unroll
  for (int i = 0; i < 64; ++i) asm volatile("" : "+r"(d[i]) :: "memory");
}

// all of the block's part of an image: 9 pixels of 8 channels a thread
__device__ __forceinline__ void load_tile(float (&v)[NPX][CI], const float* __restrict__ x,
                                          int img, int seg, int pt) {
  const float* src = x + (int64_t)img * (CI * H * W) + seg * (RB * 4 * W) + pt;
  // rows past the image feed masked outputs only
  const float* last = src + (seg < SEG - 1 ? (NPX - 1) * 256 : 0);
#pragma unroll
  for (int j = 0; j < NPX - 1; ++j) {
#pragma unroll
    for (int c = 0; c < CI; ++c) v[j][c] = ld_stream(src + c * (H * W) + j * 256);
  }
#pragma unroll
  for (int c = 0; c < CI; ++c) v[NPX - 1][c] = ld_stream(last + c * (H * W));
}

// split and store: fp16, and the residuals in fp16 (EXACT) or x and the residuals in s8
template <bool EXACT>
__device__ __forceinline__ void store_tile(const float (&v)[NPX][CI], unsigned char* buf,
                                           float m, float sx, int pt) {
#pragma unroll
  for (int j = 0; j < NPX; ++j) {
    uint4 h, l;
    {
      const float e0 = (v[j][0] - m) * sx, e1 = (v[j][1] - m) * sx;
      const float e2 = (v[j][2] - m) * sx, e3 = (v[j][3] - m) * sx;
      float r0, r1, r2, r3;
      split2(e0, e1, h.x, r0, r1);
      split2(e2, e3, h.y, r2, r3);
      if (EXACT) {
        l.x = h2(r0, r1);
        l.y = h2(r2, r3);
      } else {
        l.x = s8x4(e0, e1, e2, e3, X8);
        l.z = s8x4(r0, r1, r2, r3, XL8);
      }
    }
    {
      const float e0 = (v[j][4] - m) * sx, e1 = (v[j][5] - m) * sx;
      const float e2 = (v[j][6] - m) * sx, e3 = (v[j][7] - m) * sx;
      float r0, r1, r2, r3;
      split2(e0, e1, h.z, r0, r1);
      split2(e2, e3, h.w, r2, r3);
      if (EXACT) {
        l.z = h2(r0, r1);
        l.w = h2(r2, r3);
      } else {
        l.y = s8x4(e0, e1, e2, e3, X8);
        l.w = s8x4(r0, r1, r2, r3, XL8);
      }
    }
    unsigned char* dst = buf + (pt + j * 256) * 16;
    *reinterpret_cast<uint4*>(dst) = h;
    *reinterpret_cast<uint4*>(dst + PLANE) = l;
  }
}

// centre, scale, split and store a tile, then tell the consumers
__device__ __forceinline__ void convert_tile(const float (&v)[NPX][CI], unsigned char* buf,
                                             float* smn, float* smx, float* centre, float* invx,
                                             int* mode, int pt, int full_id) {
  float mn = v[0][0], mx = v[0][0];
#pragma unroll
  for (int j = 0; j < NPX; ++j) {
#pragma unroll
    for (int c = 0; c < CI; ++c) {
      mn = fminf(mn, v[j][c]);
      mx = fmaxf(mx, v[j][c]);
    }
  }
  // averages over the block of the threads' minima and maxima
  float an = mn * (1.f / 256.f), ax = mx * (1.f / 256.f);
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    mn = fminf(mn, __shfl_xor_sync(0xffffffffu, mn, d));
    mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, d));
    an += __shfl_xor_sync(0xffffffffu, an, d);
    ax += __shfl_xor_sync(0xffffffffu, ax, d);
  }
  if ((pt & 31) == 0) {
    const int i = pt >> 5;
    smn[i] = mn;
    smx[i] = mx;
    smn[8 + i] = an;
    smx[8 + i] = ax;
  }
  bar_sync(BAR_PROD, 256);
  mn = smn[0]; mx = smx[0];
  an = smn[8]; ax = smx[8];
#pragma unroll
  for (int i = 1; i < 8; ++i) {
    mn = fminf(mn, smn[i]);
    mx = fmaxf(mx, smx[i]);
    an += smn[8 + i];
    ax += smx[8 + i];
  }
  const bool exact = !(ax - an >= SPREAD * (mx - mn));
  // a tile with outliers is centred near its bulk
  float m = exact ? 0.5f * an + 0.5f * ax : 0.5f * mn + 0.5f * mx;
  m = fminf(fmaxf(m, mn), mx);
  const float sx = pow2_scale(fmaxf(mx - m, m - mn), XTARGET, 24);
  if (pt == 0) { *centre = m; *invx = pow2_inv(sx); *mode = exact ? 1 : 0; }
  if (exact) {
    store_tile<true>(v, buf, m, sx, pt);
  } else {
    store_tile<false>(v, buf, m, sx, pt);
  }
  __syncwarp();
  asm volatile("fence.proxy.async;\n" ::: "memory");
  bar_arrive(full_id, 384);
  bar_arrive(full_id + 1, 384);
}

__global__ void __cluster_dims__(SEG, 1, 1) __launch_bounds__(THREADS, 1)
fused_kernel(const float* __restrict__ x, const float* __restrict__ w, const float* __restrict__ bias,
             const float* __restrict__ gamma, const float* __restrict__ beta,
             const float* __restrict__ scale, float* __restrict__ out,
             double eps, float lo, float hi, int n) {
  extern __shared__ __align__(1024) unsigned char smem[];
  float* pool = reinterpret_cast<float*>(smem + POFF);
  __shared__ __align__(16) double spart[2][SEG][2 * G];   // pushed here by the cluster's blocks
  __shared__ double swsum[CO];
  __shared__ __align__(8) uint64_t mbar[2];
  __shared__ __align__(8) uint64_t mfree;   // the pooled values have been written out
  __shared__ float red[2][CO][2];
  __shared__ float swinv[CO];       // undoes the scale and the sign of a channel's weights
  __shared__ float sbi[CO], sga[CO], sbe[CO], ssc[CO];
  __shared__ float sa[CO], sb[CO];
  __shared__ float smn[2][16], smx[2][16];
  __shared__ float scentre[2], sinvx[2];
  __shared__ int smode[2];          // 1: the corrections are in fp16

  const int tid = threadIdx.x, lane = tid & 31;
  const int seg = (int)(blockIdx.x % SEG);
  const int cid = (int)(blockIdx.x / SEG);
  const int nc = (int)(gridDim.x / SEG);
  const int wg = __shfl_sync(0xffffffffu, tid >> 7, 0);
  const uint32_t mfree_addr = (uint32_t)__cvta_generic_to_shared(&mfree);

  if (wg < 2) {
    // ------------------------------------------------------------------ consumers
    {
      // weights: scale, split, store; one thread takes two input channels of one output channel
      const int ch = tid >> 2, q = tid & 3;
      const float* wp = w + ch * 72 + q * 18;
      float a = 0.f;
      double ws = 0.0;
#pragma unroll
      for (int k = 0; k < 18; ++k) {
        const float u = __ldg(wp + k);
        a = fmaxf(a, fabsf(u));
        ws += (double)u;
      }
#pragma unroll
      for (int s = 1; s < 4; s <<= 1) {
        a = fmaxf(a, __shfl_xor_sync(0xffffffffu, a, s));
        ws += __shfl_xor_sync(0xffffffffu, ws, s);
      }
      float sg = pow2_scale(a, WTARGET, 40);
      float winv = pow2_inv(sg);
      const float ga = __ldg(gamma + ch), sc = __ldg(scale + ch);
      if (ga * sc < 0.f) { sg = -sg; winv = -winv; }
      if (q == 0) {
        swsum[ch] = ws;
        swinv[ch] = winv;
        sga[ch] = ga;
        ssc[ch] = sc;
        sbi[ch] = __ldg(bias + ch);
        sbe[ch] = __ldg(beta + ch);
      }
      unsigned char* dst = smem + WOFF + ch * 16 + q * 4;               // fp16
      unsigned char* dst8 = smem + WOFF + WPLANE + ch * 16 + q * 2;     // s8: residual, weight
      unsigned char* dstl = dst + 2 * WPLANE;                           // fp16 residual
#pragma unroll
      for (int k = 0; k < 9; ++k) {
        const int slot = k < 8 ? k : 9;
        const float e0 = sg * __ldg(wp + k), e1 = sg * __ldg(wp + 9 + k);
        uint32_t h;
        float r0, r1;
        split2(e0, e1, h, r0, r1);
        *reinterpret_cast<uint32_t*>(dst + slot * WSLOT) = h;
        *reinterpret_cast<uint32_t*>(dstl + slot * WSLOT) = h2(r0, r1);
        *reinterpret_cast<uint16_t*>(dst8 + slot * WSLOT) = s8x2(r0, r1, WL8);
        *reinterpret_cast<uint16_t*>(dst8 + slot * WSLOT + 8) = s8x2(e0, e1, W8);
      }
      // the slot of zeros, which tap 8 is paired with
      *reinterpret_cast<uint32_t*>(dst + 8 * WSLOT) = 0u;
      *reinterpret_cast<uint32_t*>(dstl + 8 * WSLOT) = 0u;
      *reinterpret_cast<uint16_t*>(dst8 + 8 * WSLOT) = (uint16_t)0;
      *reinterpret_cast<uint16_t*>(dst8 + 8 * WSLOT + 8) = (uint16_t)0;
      if (tid == 0) {
        const uint32_t mb = (uint32_t)__cvta_generic_to_shared(&mbar[0]);
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" :: "r"(mb), "r"(SEG * G) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" :: "r"(mb + 8u), "r"(SEG * G) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" :: "r"(mfree_addr), "r"(256) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
      }
      asm volatile("fence.proxy.async;\n" ::: "memory");
    }
    __syncthreads();
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;\n" ::: "memory");

    const int g = lane >> 2, t = lane & 3;
    const int w4 = (tid >> 5) & 3;
    // In a cluster the address carries the rank of the block in bits 24 and up; a descriptor
    // takes only the 18 bits within the block, so mask before the fields are put together.
    const uint32_t base = (((uint32_t)__cvta_generic_to_shared(smem)) & 0x3FFFFu) >> 4;
    const uint32_t ah = base + WOFF / 16;             // weights, fp16
    const uint32_t al = ah + WPLANE / 16;             // weights, s8
    const uint32_t ar = al + WPLANE / 16;             // weights, fp16 residuals
    constexpr uint32_t RU = ROWB / 16;                // a row, in units of 16 bytes
    constexpr uint32_t PU = PLANE / 16;
    constexpr uint32_t SU = WSLOT / 16;

    // the first turn is warpgroup 0's
    if (wg == 1) bar_arrive(BAR_TURN, 256);

    int it = 0;
#pragma unroll 1
    for (int img = cid; img < n; img += nc, ++it) {
      const int b = it & 1;
      const uint32_t xaddr = base + (uint32_t)b * (BUF / 16);
      float sum0 = 0.f, sum1 = 0.f, sq0 = 0.f, sq1 = 0.f;
      bar_sync(BAR_FULL + 2 * b + wg, 384);
      const int exact = __shfl_sync(0xffffffffu, *(const volatile int*)&smode[b], 0);

#pragma unroll 1
      for (int p = 0; p < 2; ++p) {
        const int pr = wg * 2 + p;
        float mx[32];
#pragma unroll
        for (int i = 0; i < 32; ++i) mx[i] = __uint_as_float(0xff800000u);

#pragma unroll 1
        for (int oy = 0; oy < 4; ++oy) {
          const int row = pr * 4 + oy;
          const uint32_t xh = xaddr + (uint32_t)row * RU;
          const uint32_t xl = xh + PU;
          float d[64];

          if (exact != 0) {
            // wl * xh + wh * xl, in fp16
#pragma unroll
            for (int i = 0; i < 64; ++i) d[i] = 0.f;
            pin(d);
            bar_sync(BAR_TURN + wg, 256);
            asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
            wgmma16(d, mdesc(ar, SU), mdesc(xh, 1));
            wgmma16(d, mdesc(ar + 3 * SU, SU), mdesc(xh + RU, 1));
            wgmma16(d, mdesc(ar + 6 * SU, SU), mdesc(xh + 2 * RU, 1));
            wgmma16(d, mdesc(ar + 2 * SU, 3 * SU), mdesc(xh + 2, RU));
            wgmma16(d, mdesc(ar + 8 * SU, SU), mdesc(xh + 2 * RU + 1, 1));
            wgmma16(d, mdesc(ah, SU), mdesc(xl, 1));
            wgmma16(d, mdesc(ah + 3 * SU, SU), mdesc(xl + RU, 1));
            wgmma16(d, mdesc(ah + 6 * SU, SU), mdesc(xl + 2 * RU, 1));
            wgmma16(d, mdesc(ah + 2 * SU, 3 * SU), mdesc(xl + 2, RU));
            wgmma16(d, mdesc(ah + 8 * SU, SU), mdesc(xl + 2 * RU + 1, 1));
            asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
            bar_arrive(BAR_TURN + (wg ^ 1), 256);
            asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
            pin(d);
          } else {
            // wl * x + w * xl, in integers, on top of the bits of 1.5 * 2^23
            uint32_t di[64];
#pragma unroll
            for (int i = 0; i < 64; ++i) di[i] = MAGIC_BITS;
            pin(di);
            bar_sync(BAR_TURN + wg, 256);
            asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
            wgmma8(di, mdesc(al, SU), mdesc(xl, 1));
            wgmma8(di, mdesc(al + 3 * SU, SU), mdesc(xl + RU, 1));
            wgmma8(di, mdesc(al + 6 * SU, SU), mdesc(xl + 2 * RU, 1));
            wgmma8(di, mdesc(al + 2 * SU, 3 * SU), mdesc(xl + 2, RU));
            wgmma8(di, mdesc(al + 8 * SU, SU), mdesc(xl + 2 * RU + 1, 1));
            asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
            bar_arrive(BAR_TURN + (wg ^ 1), 256);
            asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
            pin(di);

            // as floats these are 1.5 * 2^23 + sum
#pragma unroll
            for (int i = 0; i < 64; ++i) d[i] = fmaf(__uint_as_float(di[i]), UNDO, -MAGIC * UNDO);
          }
          pin(d);

          // wh * xh, in fp16
          bar_sync(BAR_TURN + wg, 256);
          asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
          wgmma16(d, mdesc(ah, SU), mdesc(xh, 1));
          wgmma16(d, mdesc(ah + 3 * SU, SU), mdesc(xh + RU, 1));
          wgmma16(d, mdesc(ah + 6 * SU, SU), mdesc(xh + 2 * RU, 1));
          wgmma16(d, mdesc(ah + 2 * SU, 3 * SU), mdesc(xh + 2, RU));
          wgmma16(d, mdesc(ah + 8 * SU, SU), mdesc(xh + 2 * RU + 1, 1));
          asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
          // the other warpgroup's turn (nobody waits for the very last one)
          if (wg == 0 || p == 0 || oy < 3 || img + nc < n) bar_arrive(BAR_TURN + (wg ^ 1), 256);
          asm volatile("wgmma.wait_group.sync.aligned 0;\n" ::: "memory");
          pin(d);

          if (t == 3) {               // columns 126 and 127 do not exist
            d[60] = 0.f; d[61] = 0.f; d[62] = 0.f; d[63] = 0.f;
          }
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            mx[2 * j] = fmaxf(mx[2 * j], fmaxf(d[4 * j], d[4 * j + 1]));
            mx[2 * j + 1] = fmaxf(mx[2 * j + 1], fmaxf(d[4 * j + 2], d[4 * j + 3]));
          }
          if (seg * (RB * 4) + row < OH) {
#pragma unroll
            for (int j = 0; j < 16; ++j) {
              sum0 += d[4 * j] + d[4 * j + 1];
              sum1 += d[4 * j + 2] + d[4 * j + 3];
              sq0 = fmaf(d[4 * j], d[4 * j], fmaf(d[4 * j + 1], d[4 * j + 1], sq0));
              sq1 = fmaf(d[4 * j + 2], d[4 * j + 2], fmaf(d[4 * j + 3], d[4 * j + 3], sq1));
            }
          }
        }

        // the producers have written out the pooled values of the image before
        if (p == 0 && it > 0) {
          const uint32_t phase = (uint32_t)((it - 1) & 1);
          uint32_t ok = 0;
          while (!ok) {
            asm volatile(
                "{\n\t.reg .pred p;\n\t"
                "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
                "selp.u32 %0, 1, 0, p;\n\t}\n"
                : "=r"(ok) : "r"(mfree_addr), "r"(phase) : "memory");
          }
          __syncwarp();
        }
        {
          const bool odd = (t & 1) != 0;
          const int cl = g + (odd ? 8 : 0);
          float* dst = pool + pr * PROW + (w4 * 16 + cl) * 32;
#pragma unroll
          for (int j = 0; j < 16; ++j) {
            const float send = odd ? mx[2 * j] : mx[2 * j + 1];
            const float mine = odd ? mx[2 * j + 1] : mx[2 * j];
            const float got = __shfl_xor_sync(0xffffffffu, send, 1);
            dst[(2 * j + (t >> 1) + 2 * cl) & 31] = fmaxf(mine, got);
          }
        }
      }

      // sums of the channels
#pragma unroll
      for (int s = 1; s < 4; s <<= 1) {
        sum0 += __shfl_xor_sync(0xffffffffu, sum0, s);
        sum1 += __shfl_xor_sync(0xffffffffu, sum1, s);
        sq0 += __shfl_xor_sync(0xffffffffu, sq0, s);
        sq1 += __shfl_xor_sync(0xffffffffu, sq1, s);
      }
      if (t == 0) {
        const int ch0 = w4 * 16 + g, ch1 = ch0 + 8;
        red[wg][ch0][0] = sum0;
        red[wg][ch0][1] = sq0;
        red[wg][ch1][0] = sum1;
        red[wg][ch1][1] = sq1;
      }
      __syncwarp();
      bar_arrive(BAR_DONE, 512);      // sums and pooled values stand, and the buffer is free
    }
  } else {
    // ------------------------------------------------------------------ producers
    const int pt = tid - 256;
    const int pwarp = pt >> 5;
    float v[NPX][CI];
    load_tile(v, x, cid, seg, pt);
    __syncthreads();
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;\n" ::: "memory");
    convert_tile(v, smem, smn[0], smx[0], &scentre[0], &sinvx[0], &smode[0], pt, BAR_FULL);
    if (cid + nc < n) load_tile(v, x, cid + nc, seg, pt);

    const int rows = (PH - seg * RB) < RB ? (PH - seg * RB) : RB;
    const int cnt = rows * PW;

    int it = 0;
#pragma unroll 1
    for (int img = cid; img < n; img += nc, ++it) {
      const int b = it & 1;
      const int next = img + nc;
      if (next < n) {
        const int nb = b ^ 1;         // the consumers left it one image ago
        convert_tile(v, smem + nb * BUF, smn[nb], smx[nb], &scentre[nb], &sinvx[nb], &smode[nb],
                     pt, BAR_FULL + 2 * nb);
        if (next + nc < n) load_tile(v, x, next + nc, seg, pt);
      }

      bar_sync(BAR_DONE, 512);
      if (pt < CO) {
        const float sinv = swinv[pt] * sinvx[b];
        // what conv(x - m) leaves out
        const double K = (double)sbi[pt] + (double)scentre[b] * swsum[pt];
        const double iv = (double)sinv;
        const double s1c = ((double)red[0][pt][0] + (double)red[1][pt][0]) * iv;
        const double q1c = ((double)red[0][pt][1] + (double)red[1][pt][1]) * iv * iv;
        const int orows = (OH - seg * RB * 4) < RB * 4 ? (OH - seg * RB * 4) : RB * 4;
        const double cntd = (double)(orows * OW);
        double s = s1c + cntd * K;
        double q = q1c + 2.0 * K * s1c + cntd * K * K;
        s += __shfl_xor_sync(0xffffffffu, s, 1);
        q += __shfl_xor_sync(0xffffffffu, q, 1);
        s += __shfl_xor_sync(0xffffffffu, s, 2);
        q += __shfl_xor_sync(0xffffffffu, q, 2);

        // each of a group's four threads tells two blocks of the cluster
        const int gr = pt >> 2;
        const uint32_t slot = (uint32_t)__cvta_generic_to_shared(&spart[b][seg][gr * 2]);
        const uint32_t mb = (uint32_t)__cvta_generic_to_shared(&mbar[b]);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const uint32_t peer = (uint32_t)((pt & 3) * 2 + i);
          uint32_t ra, rm;
          asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(ra) : "r"(slot), "r"(peer));
          asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(rm) : "r"(mb), "r"(peer));
          asm volatile("st.shared::cluster.f64 [%0], %1;" :: "r"(ra), "d"(s) : "memory");
          asm volatile("st.shared::cluster.f64 [%0], %1;" :: "r"(ra + 8u), "d"(q) : "memory");
          asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                       :: "r"(rm) : "memory");
        }
        const uint32_t phase = (uint32_t)((it >> 1) & 1);
        uint32_t ok = 0;
        while (!ok) {
          asm volatile(
              "{\n\t.reg .pred p;\n\t"
              "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
              "selp.u32 %0, 1, 0, p;\n\t}\n"
              : "=r"(ok) : "r"(mb), "r"(phase) : "memory");
        }
        __syncwarp();
        s = 0.0;
        q = 0.0;
        const volatile double* part = &spart[b][0][gr * 2];
#pragma unroll
        for (int i = 0; i < SEG; ++i) {
          s += part[i * (2 * G)];
          q += part[i * (2 * G) + 1];
        }
        constexpr double inv = 1.0 / (4.0 * OH * OW);
        const double mean = s * inv;
        double var = q * inv - mean * mean;
        var = var > 0.0 ? var : 0.0;
        const double z = var + eps;
        double r = (double)rsqrtf((float)z);
        r = r * (1.5 - 0.5 * z * r * r);
        const double a = (double)sga[pt] * r * (double)ssc[pt];
        sa[pt] = (float)(a * iv);
        sb[pt] = (float)((double)sbe[pt] * (double)ssc[pt] + (K - mean) * a);
      }
      bar_sync(BAR_PROD, 256);

      float* obase = out + (int64_t)img * (CO * PH * PW) + seg * (RB * PW);
      int off[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        int i = lane + j * 32;
        i = i < RB * PW ? i : 0;
        const int pr = i / PW;
        off[j] = pr * PROW * 32 + (i - pr * PW);      // row offset and column, packed
      }
#pragma unroll 2
      for (int c = pwarp; c < CO; c += 8) {
        const float a = sa[c], bb = sb[c];
        const float* ps = pool + c * 32;
        const int rot = 2 * (c & 15);
        float* po = obase + c * (PH * PW);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int i = lane + j * 32;
          if (i < cnt) {
            const float u = ps[(off[j] >> 5) + (((off[j] & 31) + rot) & 31)];
            po[i] = fminf(fmaxf(fmaf(u, a, bb), lo), hi);
          }
        }
      }
      __syncwarp();
      if (next < n) {
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];"
                     :: "r"(mfree_addr) : "memory");
      }
    }
  }
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;\n" ::: "memory");
}

// how many clusters the device holds at once
static int resident_clusters(int device) {
  static int cached[64] = {0};
  if (device >= 0 && device < 64 && cached[device] > 0) return cached[device];
  C10_CUDA_CHECK(cudaFuncSetAttribute(fused_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM_BYTES));
  cudaLaunchConfig_t cfg = {};
  cfg.gridDim = dim3(SEG * 16, 1, 1);
  cfg.blockDim = dim3(THREADS, 1, 1);
  cfg.dynamicSmemBytes = SMEM_BYTES;
  cudaLaunchAttribute attr[1];
  attr[0].id = cudaLaunchAttributeClusterDimension;
  attr[0].val.clusterDim.x = SEG;
  attr[0].val.clusterDim.y = 1;
  attr[0].val.clusterDim.z = 1;
  cfg.attrs = attr;
  cfg.numAttrs = 1;
  int num = 0;
  if (cudaOccupancyMaxActiveClusters(&num, fused_kernel, &cfg) != cudaSuccess || num < 1) {
    (void)cudaGetLastError();
    num = 16;
  }
  if (device >= 0 && device < 64) cached[device] = num;
  return num;
}

torch::Tensor conv_gn_pool(torch::Tensor x, torch::Tensor w, torch::Tensor bias,
                           torch::Tensor gamma, torch::Tensor beta, torch::Tensor scale,
                           double eps, double lo, double hi) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == torch::kFloat32, "x must be float32 on the GPU");
  TORCH_CHECK(x.dim() == 4 && x.size(1) == CI && x.size(2) == H && x.size(3) == W, "shape of x");
  TORCH_CHECK(w.numel() == CO * CI * 9, "shape of w");
  const c10::cuda::CUDAGuard guard(x.device());
  x = x.contiguous(); w = w.contiguous(); bias = bias.contiguous();
  gamma = gamma.contiguous(); beta = beta.contiguous(); scale = scale.contiguous();
  const int n = (int)x.size(0);
  auto out = torch::empty({n, CO, PH, PW}, x.options());
  if (n == 0) return out;
  auto stream = at::cuda::getCurrentCUDAStream();
  const int most = resident_clusters((int)x.get_device());
  const int nc = most < n ? most : n;
  fused_kernel<<<dim3(SEG * nc), THREADS, SMEM_BYTES, stream>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), gamma.data_ptr<float>(),
      beta.data_ptr<float>(), scale.data_ptr<float>(), out.data_ptr<float>(),
      eps, (float)lo, (float)hi, n);
  C10_CUDA_CHECK(cudaGetLastError());
  return out;
}
"""

# WGMMA exists for sm_90a only
_arch = os.environ.get("TORCH_CUDA_ARCH_LIST")
os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0a"
try:
    extension = load_inline(
        name="conv_gn_scale_pool_clamp_wgmma_adaptive",
        cpp_sources=CPP,
        cuda_sources=CUDA,
        functions=["conv_gn_pool"],
        extra_cuda_cflags=["-O3"],
    )
finally:
    if _arch is None:
        os.environ.pop("TORCH_CUDA_ARCH_LIST", None)
    else:
        os.environ["TORCH_CUDA_ARCH_LIST"] = _arch


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
        self.fused = (
            in_channels == 8 and out_channels == 64 and kernel_size == 3 and num_groups == 16
            and maxpool_kernel_size == 4 and tuple(scale_shape) == (64, 1, 1)
            and clamp_min is not None and clamp_max is not None
        )

    def forward(self, x):
        if (self.fused and x.is_cuda and x.dtype == torch.float32 and x.dim() == 4
                and tuple(x.shape[1:]) == (8, 128, 128) and x.shape[0] <= 4096):
            return extension.conv_gn_pool(
                x, self.conv.weight, self.conv.bias, self.group_norm.weight,
                self.group_norm.bias, self.scale, self.group_norm.eps,
                self.clamp_min, self.clamp_max,
            )
        x = self.conv(x)
        x = self.group_norm(x)
        x = x * self.scale
        x = self.maxpool(x)
        return torch.clamp(x, self.clamp_min, self.clamp_max)
