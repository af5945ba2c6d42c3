/* Opens its executable by one function, ten times a second, as often as it is told. FUNCTION names the function. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline, noclone)) void FUNCTION(const char *file) {
    close(open(file, O_RDONLY));
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 1;
    for (int left = atoi(argv[1]); left > 0; left--) {
        FUNCTION(argv[0]);
        usleep(100000);
    }
    return 0;
}
