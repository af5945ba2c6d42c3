/* Works on files by streams, and says itself what it did: calls and bytes by function, as JSON. Its argument is a
 * directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct count {
	const char *function;
	long calls;
	long bytes;
};

static struct count counts[64];

static long did(const char *function, long bytes)
{
	for (struct count *count = counts; count < counts + 64; count++) {
		if (!count->function)
			count->function = function;
		if (!strcmp(count->function, function)) {
			count->calls++;
			count->bytes += bytes;
			break;
		}
	}
	return bytes;
}

#define FAIL_UNLESS(what) do { if (!(what)) { perror(#what); exit(1); } } while (0)

int main(int argc, char **argv)
{
	static char block[100000];
	char path[4096], line[64], big[70000];
	char *text = NULL;
	size_t room = 0;

	(void)argc;
	snprintf(path, sizeof path, "%s/stream", argv[1]);
	FILE *file = fopen(path, "w+");
	FAIL_UNLESS(file);
	did("fopen", 0);
	for (int i = 0; i < 1000; i++)
		did("fprintf", fprintf(file, "line %d\n", i));
	memset(big, 'y', sizeof big - 1);
	big[sizeof big - 1] = 0;
	fputs("some words\n", file), did("fputs", 11);
	fputs(big, file), did("fputs", sizeof big - 1);
	for (int i = 0; i < 10; i++)
		fputc('z', file), did("fputc", 1);
	did("fwrite", fwrite(block, 3, 5, file) * 3);
	did("fwrite", fwrite(block, 1, sizeof block, file));
	fflush(file), did("fflush", 0);
	fseek(file, 0, SEEK_SET), did("fseek", 0);
	for (int i = 0; i < 500; i++) {
		FAIL_UNLESS(fgets(line, sizeof line, file));
		did("fgets", strlen(line));
	}
	/* One that is longer than the room for it. */
	FAIL_UNLESS(fgets(line, 4, file));
	did("fgets", 3);
	did("getline", getline(&text, &room, file));
	for (int i = 0; i < 20; i++)
		fgetc(file), did("fgetc", 1);
	rewind(file), did("rewind", 0);
	for (long n; (n = fread(big, 100, 7, file)); )
		did("fread", n * 100);
	/* The last items were not whole: the end was found by a call that returned none. */
	did("fread", 0);
	fclose(file), did("fclose", 0);

	file = fopen(path, "a");
	FAIL_UNLESS(file);
	did("fopen", 0);
	fputs("behind all\n", file), did("fputs", 11);
	fclose(file), did("fclose", 0);

	printf("{");
	for (struct count *count = counts; count->function; count++)
		printf("%s\"%s\": [%ld, %ld]", count == counts ? "" : ", ", count->function,
		       count->calls, count->bytes);
	printf("}\n");
	return 0;
}
