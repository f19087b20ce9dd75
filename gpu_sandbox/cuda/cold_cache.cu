// A cache that holds none of a program's memory, whatever the program has asked for (cold.py).
//
// What is read or written with the priority of what goes last is dropped only when there is nothing
// else, so it makes all other lines go, those of the same priority included. Each access says so by
// itself: what a stream or the address says of it, which a program can set, counts for nothing then.
// Nothing before compute capability 8.0 keeps lines.

extern "C" __global__ void overwrite(char *data, count bytes) {
  const count step = (count)gridDim.x * blockDim.x * 16;
#if __CUDA_ARCH__ >= 800
  unsigned long long last;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
#endif
  for (count i = ((count)blockIdx.x * blockDim.x + threadIdx.x) * 16; i < bytes; i += step)
#if __CUDA_ARCH__ >= 800
    asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %1, %1, %1}, %2;" ::"l"(data + i),
                 "r"(0), "l"(last)
                 : "memory");
#else
    *(uint4 *)(data + i) = make_uint4(0, 0, 0, 0);
#endif
}

// And these lines, 128 bytes each, are like any others again.
extern "C" __global__ void let_go(char *data, count bytes) {
#if __CUDA_ARCH__ >= 800
  const count step = (count)gridDim.x * blockDim.x * 128;
  for (count i = ((count)blockIdx.x * blockDim.x + threadIdx.x) * 128; i < bytes; i += step)
    asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(data + i) : "memory");
#endif
}
