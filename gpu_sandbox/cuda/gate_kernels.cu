// What sealed inputs and committed outputs are made of (sealing.py). One primitive for both: the
// compression function of BLAKE3 (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020, section 2.2),
// as a keystream in counter mode and as a hash in chains and a tree. Of its seven rounds four, as
// many as ChaCha8 has: what is sealed is opened after milliseconds, and what they take is time in
// which a kernel that does this work itself could hide other work.

typedef unsigned int word;
typedef unsigned long long count;

#define START 1u
#define PARENT 4u
#define KEYED 16u
#define OUTPUT 2u // of the keystream for outputs, which is another one than that for inputs
#define ROUNDS 4
#define LANES 32
#define WARPS 8
#define WHOLE 0xffffffffu

__device__ static const word FIRST[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                         0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};

__device__ __forceinline__ word turned(word x, int n) { return __funnelshift_r(x, x, n); }

__device__ __forceinline__ void mix(word &a, word &b, word &c, word &d, word x, word y) {
  a += b + x;
  d = turned(d ^ a, 16);
  c += d;
  b = turned(b ^ c, 12);
  a += b + y;
  d = turned(d ^ a, 8);
  c += d;
  b = turned(b ^ c, 7);
}

// `v` becomes the 16 words of output.
__device__ __forceinline__ void compress(const word h[8], word m[16], count number, word flags,
                                         word v[16]) {
  for (int i = 0; i < 8; i++) v[i] = h[i];
  for (int i = 0; i < 4; i++) v[8 + i] = FIRST[i];
  v[12] = (word)number, v[13] = (word)(number >> 32), v[14] = 64u, v[15] = flags;
  const int order[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
#pragma unroll
  for (int round = 0; round < ROUNDS; round++) {
    mix(v[0], v[4], v[8], v[12], m[0], m[1]);
    mix(v[1], v[5], v[9], v[13], m[2], m[3]);
    mix(v[2], v[6], v[10], v[14], m[4], m[5]);
    mix(v[3], v[7], v[11], v[15], m[6], m[7]);
    mix(v[0], v[5], v[10], v[15], m[8], m[9]);
    mix(v[1], v[6], v[11], v[12], m[10], m[11]);
    mix(v[2], v[7], v[8], v[13], m[12], m[13]);
    mix(v[3], v[4], v[9], v[14], m[14], m[15]);
    word next[16];
#pragma unroll
    for (int i = 0; i < 16; i++) next[i] = m[order[i]];
#pragma unroll
    for (int i = 0; i < 16; i++) m[i] = next[i];
  }
#pragma unroll
  for (int i = 0; i < 8; i++) {
    v[i] ^= v[i + 8];
    v[i + 8] ^= h[i];
  }
}

// The key that was taken last, in the device's own memory: groups of threads that read the same word
// of the host's memory do so one by one, each for a microsecond.
__device__ word taken[8];

// One thread: what is queued behind it begins when the counter has reached `least`, and `key` is
// there.
extern "C" __global__ void take(const volatile word *counter, word least, const volatile word *key) {
  while ((int)(*counter - least) < 0) {
  }
  __threadfence_system();
  for (int i = 0; i < 8; i++) taken[i] = key[i];
}

// Rounds of `pieces` stretches of memory, each of `blocks` times 64 bytes and `stride` bytes behind
// the one before. A round is a row of the grid.
__device__ __forceinline__ uint4 *block_at(char *data, count number, count blocks, count pieces,
                                           count stride) {
  const count piece = number / blocks;
  data += (blockIdx.y * pieces + piece) * stride;
  return (uint4 *)(data + (number - piece * blocks) * 64);
}

__device__ __forceinline__ void load(const uint4 *at, word m[16]) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const uint4 four = at[i];
    m[4 * i] = four.x, m[4 * i + 1] = four.y, m[4 * i + 2] = four.z, m[4 * i + 3] = four.w;
  }
}

// Sealing and unsealing: every block is combined with the keystream. `key`: 8 words a round.
extern "C" __global__ void __launch_bounds__(LANES *WARPS)
    seal(char *data, count blocks, count pieces, count stride, const volatile word *key,
         count domain) {
  __shared__ word shared[8];
  if (threadIdx.x < 8) shared[threadIdx.x] = key[8 * blockIdx.y + threadIdx.x];
  __syncthreads();
  word h[8];
  for (int i = 0; i < 8; i++) h[i] = shared[i];
  const count step = (count)gridDim.x * blockDim.x;
  for (count i = (count)blockIdx.x * blockDim.x + threadIdx.x; i < blocks * pieces; i += step) {
    word m[16] = {0}, v[16];
    compress(h, m, i, START | KEYED | (word)domain, v);
    uint4 *at = block_at(data, i, blocks, pieces, stride);
#pragma unroll
    for (int k = 0; k < 4; k++) {
      uint4 four = at[k];
      four.x ^= v[4 * k], four.y ^= v[4 * k + 1], four.z ^= v[4 * k + 2], four.w ^= v[4 * k + 3];
      at[k] = four;
    }
  }
}

// An output goes, sealed, from where it is to its place, which begins with the block `first` of its
// round. Both begin at multiples of 16 bytes; what is behind the last of them is nobody's.
extern "C" __global__ void __launch_bounds__(LANES *WARPS)
    put(const char *from, char *to, count bytes, count first, const volatile word *key) {
  __shared__ word shared[8];
  if (threadIdx.x < 8) shared[threadIdx.x] = key[threadIdx.x];
  __syncthreads();
  word h[8];
  for (int i = 0; i < 8; i++) h[i] = shared[i];
  const count step = (count)gridDim.x * blockDim.x;
  for (count i = (count)blockIdx.x * blockDim.x + threadIdx.x; i * 64 < bytes; i += step) {
    word m[16] = {0}, v[16];
    compress(h, m, first + i, START | KEYED | OUTPUT, v);
    if (bytes - i * 64 >= 64) {
      const uint4 *source = (const uint4 *)(from + i * 64);
      uint4 *target = (uint4 *)(to + i * 64);
#pragma unroll
      for (int k = 0; k < 4; k++) {
        uint4 four = source[k];
        four.x ^= v[4 * k], four.y ^= v[4 * k + 1], four.z ^= v[4 * k + 2], four.w ^= v[4 * k + 3];
        target[k] = four;
      }
    } else {
      for (count k = i * 64; k < bytes; k++)
        to[k] = from[k] ^ (char)(v[(k - i * 64) / 4] >> (8 * (k % 4)));
    }
  }
}

// Of those of `lanes` threads of a warp, the first gets the root of a binary tree.
__device__ __forceinline__ void join(word h[8], int lanes) {
  for (int half = lanes / 2; half > 0; half /= 2) {
    word m[16], v[16];
    for (int i = 0; i < 8; i++) {
      m[i] = h[i];
      m[i + 8] = __shfl_down_sync(WHOLE, h[i], half);
    }
    compress(FIRST, m, half, PARENT, v);
    for (int i = 0; i < 8; i++) h[i] = v[i];
  }
}

// 32 bytes for each group of threads of a round, of all the blocks that these look at.
extern "C" __global__ void __launch_bounds__(LANES *WARPS)
    digest(char *data, count blocks, count pieces, count stride, word *digests) {
  word h[8];
  for (int i = 0; i < 8; i++) h[i] = FIRST[i];
  const count step = (count)gridDim.x * blockDim.x;
  for (count i = (count)blockIdx.x * blockDim.x + threadIdx.x; i < blocks * pieces; i += step) {
    word m[16], v[16];
    load(block_at(data, i, blocks, pieces, stride), m);
    compress(h, m, i, START, v);
    for (int k = 0; k < 8; k++) h[k] = v[k];
  }
  join(h, LANES);
  __shared__ word warps[WARPS][8];
  const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  if (lane == 0)
    for (int i = 0; i < 8; i++) warps[warp][i] = h[i];
  __syncthreads();
  if (warp) return;
  for (int i = 0; i < 8; i++) h[i] = warps[lane % WARPS][i];
  join(h, WARPS);
  digests += 8 * (gridDim.x * blockIdx.y + blockIdx.x);
  if (lane == 0)
    for (int i = 0; i < 8; i++) digests[i] = h[i];
}
