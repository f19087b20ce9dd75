/* Stands in for libnvidia-ml.so.1: one device, told what to say by the fake_* functions. */
#include <string.h>
#include <unistd.h>

typedef struct {
  unsigned pid;
  unsigned long long used;
  unsigned instance, compute_instance;
} process_t;
typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} memory_t;

typedef struct {
  unsigned gpu, memory;
} utilization_t;

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, TOO_SMALL = 7, MOST = 512 };

static process_t processes[MOST];
static unsigned process_count, clocks[4096], clock_count, clock_next, asked, wait_us;
static unsigned utilizations[64], utilization_count, utilization_next;
static unsigned long long reasons[4096], used_bytes;
static int device;

void fake_forget(void) {
  process_count = clock_count = clock_next = asked = wait_us = 0;
  utilization_count = utilization_next = 0;
  used_bytes = 0;
}

void fake_process(unsigned pid, unsigned long long used) {
  processes[process_count].pid = pid;
  processes[process_count++].used = used;
  used_bytes += used;
}

void fake_hidden(unsigned long long used) { used_bytes += used; }

/* What the next reading says; the last one is said again and again. */
void fake_reading(unsigned mhz, unsigned long long why) {
  clocks[clock_count] = mhz;
  reasons[clock_count++] = why;
}

/* Of the next question; the last one is said again and again. */
void fake_utilization(unsigned percent) { utilizations[utilization_count++] = percent; }

void fake_slowness(unsigned us) { wait_us = us; }

unsigned fake_asked(void) { return asked; }

int nvmlInit_v2(void) { return SUCCESS; }

int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  if (strcmp(uuid, "GPU-fake")) return NOT_FOUND;
  *handle = &device;
  return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, process_t* into) {
  if (handle != &device) return INVALID_ARGUMENT;
  unsigned room = *count;
  *count = process_count;
  if (room < process_count) return TOO_SMALL;
  memcpy(into, processes, process_count * sizeof *into);
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void* handle, memory_t* into) {
  if (handle != &device || into->version != (sizeof *into | 2 << 24)) return INVALID_ARGUMENT;
  into->used = used_bytes;
  return SUCCESS;
}

static unsigned current(void) { return clock_next < clock_count ? clock_next : clock_count - 1; }

int nvmlDeviceGetClockInfo(void* handle, int type, unsigned* mhz) {
  if (handle != &device || type != 1 || !clock_count) return INVALID_ARGUMENT;
  asked++;
  usleep(wait_us);
  *mhz = clocks[current()];
  return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(void* handle, unsigned long long* why) {
  if (handle != &device || !clock_count) return INVALID_ARGUMENT;
  *why = reasons[current()];
  if (clock_next < clock_count) clock_next++;
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void* handle, utilization_t* into) {
  if (handle != &device || !utilization_count) return INVALID_ARGUMENT;
  into->gpu = utilizations[utilization_next < utilization_count ? utilization_next : utilization_count - 1];
  into->memory = 0;
  if (utilization_next < utilization_count) utilization_next++;
  return SUCCESS;
}
