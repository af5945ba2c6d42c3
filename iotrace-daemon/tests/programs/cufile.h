/* What the tests use of cuFile's documented interface (cufile.h of CUDA). */
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

typedef struct { int err; int cu_err; } CUfileError_t;
typedef void *CUfileHandle_t;
typedef void *CUfileBatchHandle_t;
typedef void *CUstream;
typedef struct {
	int type; /* CU_FILE_HANDLE_TYPE_OPAQUE_FD = 1 */
	union { int fd; void *handle; } handle;
	const void *fs_ops;
} CUfileDescr_t;
typedef struct {
	int mode; /* CUFILE_BATCH = 1 */
	union {
		struct {
			void *devPtr_base;
			off_t file_offset;
			off_t devPtr_offset;
			size_t size;
		} batch;
	} u;
	CUfileHandle_t fh;
	int opcode; /* CUFILE_READ = 0, CUFILE_WRITE = 1 */
	void *cookie;
} CUfileIOParams_t;

CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr);
void cuFileHandleDeregister(CUfileHandle_t fh);
ssize_t cuFileRead(CUfileHandle_t fh, void *base, size_t size, off_t file_offset, off_t base_offset);
ssize_t cuFileWrite(CUfileHandle_t fh, const void *base, size_t size, off_t file_offset, off_t base_offset);
CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *base, size_t *size, off_t *file_offset, off_t *base_offset,
			      ssize_t *done, CUstream stream);
CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *base, size_t *size, off_t *file_offset, off_t *base_offset,
			       ssize_t *done, CUstream stream);
CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch, unsigned nr, CUfileIOParams_t *params, unsigned flags);
