/* Eight busy H100s as far as the publisher asks: lets the real binding run without a driver.
 * Values wander, so that the data compresses no better than real data. Return codes as in nvml.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, TIMEOUT = 10, GPUS = 8 };
typedef struct { unsigned index; } device;
static device devices[GPUS];
static int event_set;

typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned long long total, free, used; } memory_v1;

static unsigned about(unsigned value, unsigned spread) { return value - spread + (unsigned)rand() % (2 * spread + 1); }

int nvmlInitWithFlags(unsigned flags) { (void)flags; for (unsigned i = 0; i < GPUS; i++) devices[i].index = i; return OK; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { (void)code; return "error of the fake"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = GPUS; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **handle) {
    if (index >= GPUS) return INVALID;
    *handle = &devices[index];
    return OK;
}
int nvmlDeviceGetUUID(device *d, char *text, unsigned size) {
    snprintf(text, size, "GPU-00000000-0000-0000-0000-%012u", d->index);
    return OK;
}
int nvmlDeviceGetName(device *d, char *text, unsigned size) { (void)d; snprintf(text, size, "NVIDIA H100 80GB HBM3"); return OK; }
int nvmlDeviceGetArchitecture(device *d, unsigned *arch) { (void)d; *arch = 9; return OK; }
int nvmlDeviceGetMigMode(device *d, unsigned *now, unsigned *next) { (void)d; *now = *next = 0; return OK; }
int nvmlDeviceGetUtilizationRates(device *d, utilization *u) { (void)d; u->gpu = about(90, 10); u->memory = about(60, 15); return OK; }
int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *m) {
    (void)d;
    m->total = 81559ULL << 20; m->reserved = 555ULL << 20;
    m->used = (unsigned long long)about(70000, 500) << 20;
    m->free = m->total - m->reserved - m->used;
    return OK;
}
int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *m) {
    memory_v2 v;
    nvmlDeviceGetMemoryInfo_v2(d, &v);
    m->total = v.total; m->free = v.free; m->used = v.used + v.reserved;
    return OK;
}
int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *t) { (void)d; (void)sensor; *t = about(66, 4); return OK; }
int nvmlDeviceGetPowerUsage(device *d, unsigned *mw) { (void)d; *mw = about(650000, 49000); return OK; }
int nvmlDeviceGetEnforcedPowerLimit(device *d, unsigned *mw) { (void)d; *mw = 700000; return OK; }
int nvmlDeviceGetClockInfo(device *d, int kind, unsigned *mhz) { (void)d; *mhz = kind == 2 ? 2619 : about(1755, 60); return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, unsigned long long *bits) { (void)d; *bits = rand() % 2 ? 4 : 0; return OK; }
int nvmlDeviceGetTotalEccErrors(device *d, int kind, int counter, unsigned long long *n) { (void)d; (void)kind; (void)counter; *n = 0; return OK; }
int nvmlDeviceGetRemappedRows(device *d, unsigned *c, unsigned *u, unsigned *p, unsigned *f) { (void)d; *c = *u = *p = *f = 0; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *count, void *infos) { (void)d; (void)infos; *count = 0; return OK; }
int nvmlDeviceGetSupportedEventTypes(device *d, unsigned long long *kinds) { (void)d; *kinds = 8; return OK; }
int nvmlEventSetCreate(int **set) { *set = &event_set; return OK; }
int nvmlEventSetFree(int *set) { (void)set; return OK; }
int nvmlDeviceRegisterEvents(device *d, unsigned long long kinds, int *set) { (void)d; (void)kinds; (void)set; return OK; }
int nvmlEventSetWait_v2(int *set, void *data, unsigned ms) { (void)set; (void)data; (void)ms; return TIMEOUT; }
