/* Stands for libcufile.so where there is no GPU: the same functions, on host memory. */
#include <stdlib.h>
#include <unistd.h>

#include "cufile.h"

static const CUfileError_t done;
static const CUfileError_t invalid = {5022, 0};

CUfileError_t cuFileHandleRegister(CUfileHandle_t *fh, CUfileDescr_t *descr)
{
	if (descr->handle.fd < 0)
		return invalid;
	int *handle = malloc(sizeof *handle);
	*handle = descr->handle.fd;
	*fh = handle;
	return done;
}

void cuFileHandleDeregister(CUfileHandle_t fh)
{
	free(fh);
}

ssize_t cuFileRead(CUfileHandle_t fh, void *base, size_t size, off_t file_offset, off_t base_offset)
{
	return pread(*(int *)fh, (char *)base + base_offset, size, file_offset);
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void *base, size_t size, off_t file_offset, off_t base_offset)
{
	return pwrite(*(int *)fh, (const char *)base + base_offset, size, file_offset);
}

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void *base, size_t *size, off_t *file_offset, off_t *base_offset,
			      ssize_t *bytes, CUstream stream)
{
	(void)stream;
	*bytes = cuFileRead(fh, base, *size, *file_offset, *base_offset);
	return done;
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void *base, size_t *size, off_t *file_offset, off_t *base_offset,
			       ssize_t *bytes, CUstream stream)
{
	(void)stream;
	*bytes = cuFileWrite(fh, base, *size, *file_offset, *base_offset);
	return done;
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch, unsigned nr, CUfileIOParams_t *params, unsigned flags)
{
	(void)batch, (void)flags;
	for (unsigned i = 0; i < nr; i++) {
		char *base = (char *)params[i].u.batch.devPtr_base + params[i].u.batch.devPtr_offset;
		if (params[i].opcode)
			pwrite(*(int *)params[i].fh, base, params[i].u.batch.size, params[i].u.batch.file_offset);
		else
			pread(*(int *)params[i].fh, base, params[i].u.batch.size, params[i].u.batch.file_offset);
	}
	return done;
}
