/* Works on a file by MPI-IO, alone or as several ranks, and says itself what it did: calls and bytes by function, as JSON,
 * summed over the ranks. Its argument is a directory.
 *
 * The bytes are counted by what the datatypes were made of, not by what MPI says of them. Compiled with COUNTS, it makes
 * the calls that take an MPI_Count in turn with those that take an int. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES = 7, COUNT = 3 };

static struct did {
	const char *function;
	long counts[2];
} all[64];

static void did(const char *function, int result, long bytes)
{
	if (result != MPI_SUCCESS) {
		fprintf(stderr, "%s failed\n", function);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	for (struct did *did = all; did < all + 64; did++) {
		if (!did->function)
			did->function = function;
		if (!strcmp(did->function, function)) {
			did->counts[0]++;
			did->counts[1] += bytes;
			return;
		}
	}
}

#ifdef COUNTS
#define CALL(function, ...) (type % 2 ? function(__VA_ARGS__) : function##_c(__VA_ARGS__))
#else
#define CALL(function, ...) function(__VA_ARGS__)
#endif

#define MOVE(function, ...) did(#function, CALL(function, file, __VA_ARGS__), bytes)
#define DO(function, ...) did(#function, function(__VA_ARGS__), 0)

/* A call that ends by a request, and one in two halves. */
#define START(function, ...) do { MOVE(function, __VA_ARGS__, &request); MPI_Wait(&request, &status); } while (0)
#define HALVES(function, ...) do { MOVE(function##_begin, __VA_ARGS__); \
	DO(function##_end, file, buffer, &status); } while (0)

#define FORMS(do_) do { \
	MOVE(MPI_File_##do_, buffer, COUNT, datatype, &status); \
	MOVE(MPI_File_##do_##_at, 4096, buffer, COUNT, datatype, MPI_STATUS_IGNORE); \
	MOVE(MPI_File_##do_##_all, buffer, COUNT, datatype, &status); \
	MOVE(MPI_File_##do_##_at_all, 4096, buffer, COUNT, datatype, &status); \
	MOVE(MPI_File_##do_##_shared, buffer, COUNT, datatype, &status); \
	MOVE(MPI_File_##do_##_ordered, buffer, COUNT, datatype, &status); \
	START(MPI_File_i##do_, buffer, COUNT, datatype); \
	START(MPI_File_i##do_##_at, 4096, buffer, COUNT, datatype); \
	START(MPI_File_i##do_##_all, buffer, COUNT, datatype); \
	START(MPI_File_i##do_##_at_all, 4096, buffer, COUNT, datatype); \
	START(MPI_File_i##do_##_shared, buffer, COUNT, datatype); \
	HALVES(MPI_File_##do_##_all, buffer, COUNT, datatype); \
	HALVES(MPI_File_##do_##_at_all, 4096, buffer, COUNT, datatype); \
	HALVES(MPI_File_##do_##_ordered, buffer, COUNT, datatype); \
	} while (0)

int main(int argc, char **argv)
{
	static char buffer[1 << 16];
	char path[4096], missing[4200];
	MPI_Datatype types[TYPES] = { MPI_BYTE, MPI_INT, MPI_DOUBLE };
	long sizes[TYPES] = { 1, 4, 8 };
	MPI_Status status;
	MPI_Request request;
	MPI_File file;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	/* Five pieces of two doubles, with holes. */
	MPI_Type_vector(5, 2, 7, MPI_DOUBLE, &types[3]), sizes[3] = 80;
	MPI_Type_contiguous(11, MPI_SHORT, &types[4]), sizes[4] = 22;
	MPI_Type_create_resized(types[4], 0, 64, &types[5]), sizes[5] = 22;
	int lengths[2] = { 3, 1 };
	MPI_Aint places[2] = { 0, 16 };
	MPI_Datatype parts[2] = { MPI_CHAR, types[3] };
	MPI_Type_create_struct(2, lengths, places, parts, &types[6]), sizes[6] = 83;
	for (int type = 3; type < TYPES; type++)
		MPI_Type_commit(&types[type]);

	snprintf(path, sizeof path, "%s/shared", argv[1]);
	snprintf(missing, sizeof missing, "%s/missing", argv[1]);
	if (MPI_File_open(MPI_COMM_SELF, missing, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS)
		MPI_Abort(MPI_COMM_WORLD, 1);
	DO(MPI_File_open, MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
	DO(MPI_File_set_view, file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
	for (int type = 0; type < TYPES; type++) {
		MPI_Datatype datatype = types[type];
		long bytes = COUNT * sizes[type];

		FORMS(write);
		DO(MPI_File_sync, file);
		DO(MPI_File_seek, file, 0, MPI_SEEK_SET);
		DO(MPI_File_seek_shared, file, 0, MPI_SEEK_SET);
		FORMS(read);
	}
	DO(MPI_File_close, &file);

	if (rank == 0)
		printf("{");
	for (struct did *did = all; did < all + 64 && did->function; did++) {
		long sums[2];
		MPI_Reduce(did->counts, sums, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
		if (rank == 0)
			printf("%s\"%s\": [%ld, %ld]", did == all ? "" : ", ", did->function, sums[0], sums[1]);
	}
	if (rank == 0)
		printf("}\n");
	MPI_Finalize();
	return 0;
}
