/* Stands between a process and the system, and lets the operation with a given number fail.
 *
 * Loaded with LD_PRELOAD. Only what concerns files below one folder, and connections over the network, is
 * counted. It sees every library of the process: Python's own writes, those of SQLite and of Polars.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, RENAME = 4, CREATE = 8, REMOVE = 16, SEND = 32, RECEIVE = 64, CONNECT = 128 };

static char folder[PATH_MAX];
static unsigned watched;
static long chosen;
static int cause, lasting;
static _Atomic long seen;

/* Watch operations of these kinds from now on; the one with this number fails (0: none), or all from it on. */
void arm_faults(const char *below, unsigned kinds, long number, int error, int is_lasting)
{
    snprintf(folder, sizeof folder, "%s", below);
    chosen = number, cause = error, lasting = is_lasting;
    atomic_store(&seen, 0);
    watched = kinds;
}

long count_operations(void)
{
    watched = 0;
    return atomic_load(&seen);
}

#define REAL(name) ((__typeof__(&name))find_real(#name, &(static_slot_##name)))
#define SLOT(name) static void *static_slot_##name

static void *find_real(const char *name, void **slot)
{
    if (!*slot)
        *slot = dlsym(RTLD_NEXT, name);
    return *slot;
}

static int is_below(const char *path)
{
    size_t length = strlen(folder);
    return !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static int name_handle(int handle, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return 1;
}

static int is_file_of_ours(int handle)
{
    char path[PATH_MAX];
    int kept = errno, found = watched && name_handle(handle, path) && is_below(path);
    errno = kept;
    return found;
}

static int is_path_of_ours(int base, const char *path)
{
    char whole[2 * PATH_MAX], start[PATH_MAX];
    if (!watched || !path)
        return 0;
    if (path[0] == '/')
        return is_below(path);
    int kept = errno, found = base == AT_FDCWD ? getcwd(start, sizeof start) != NULL : name_handle(base, start);
    errno = kept;
    snprintf(whole, sizeof whole, "%s/%s", found ? start : "", path);
    return found && is_below(whole);
}

static int is_network(int handle)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    int kept = errno, found = watched && !getsockname(handle, (struct sockaddr *)&name, &length) &&
                              (name.ss_family == AF_INET || name.ss_family == AF_INET6);
    errno = kept;
    return found;
}

/* Count an operation. 0: it goes on, 1: it fails, 2: it is the first one of many that fail. */
static int count_one(unsigned kind)
{
    if (!(watched & kind))
        return 0;
    long number = atomic_fetch_add(&seen, 1) + 1;
    if (!chosen || number < chosen || (number > chosen && !lasting))
        return 0;
    errno = cause;
    return number == chosen && lasting ? 2 : 1;
}

static unsigned judge_handle(int handle, unsigned file, unsigned network)
{
    if (is_file_of_ours(handle))
        return file;
    return is_network(handle) ? network : 0;
}

/* A disk that gets full takes the first half of what does not fit. */
#define DEFINE_WRITE(name, extra_declaration, extra)                                                      \
    SLOT(name);                                                                                           \
    ssize_t name(int handle, const void *bytes, size_t size extra_declaration)                            \
    {                                                                                                     \
        int verdict = count_one(judge_handle(handle, WRITE, SEND));                                       \
        if (verdict == 2 && size > 1 && cause == ENOSPC)                                                  \
            return REAL(name)(handle, bytes, size / 2 extra);                                             \
        return verdict ? -1 : REAL(name)(handle, bytes, size extra);                                      \
    }
#define WITH ,
DEFINE_WRITE(write, , )
DEFINE_WRITE(pwrite, WITH off_t place, WITH place)
DEFINE_WRITE(pwrite64, WITH off64_t place, WITH place)

#define DEFINE(kind, result, name, declaration, arguments)                                                \
    SLOT(name);                                                                                           \
    result name declaration                                                                               \
    {                                                                                                     \
        return count_one(kind) ? -1 : REAL(name) arguments;                                               \
    }
#define OF_FILE(kind) (is_file_of_ours(handle) ? (kind) : 0)
#define OF_NETWORK(kind) (is_network(handle) ? (kind) : 0)
#define OF_PATH(kind) (is_path_of_ours(AT_FDCWD, path) ? (kind) : 0)
#define OF_BASE(kind) (is_path_of_ours(base, path) ? (kind) : 0)

DEFINE(judge_handle(handle, WRITE, SEND), ssize_t, writev, (int handle, const struct iovec *parts, int count),
       (handle, parts, count))
DEFINE(OF_FILE(WRITE), int, ftruncate, (int handle, off_t size), (handle, size))
DEFINE(OF_FILE(WRITE), int, ftruncate64, (int handle, off64_t size), (handle, size))
ssize_t sendfile(int handle, int from, off_t *place, size_t size);
ssize_t sendfile64(int handle, int from, off64_t *place, size_t size);
DEFINE(OF_FILE(WRITE), ssize_t, sendfile, (int handle, int from, off_t *place, size_t size),
       (handle, from, place, size))
DEFINE(OF_FILE(WRITE), ssize_t, sendfile64, (int handle, int from, off64_t *place, size_t size),
       (handle, from, place, size))
DEFINE(OF_FILE(SYNC), int, fsync, (int handle), (handle))
DEFINE(OF_FILE(SYNC), int, fdatasync, (int handle), (handle))
DEFINE(OF_PATH(RENAME), int, rename, (const char *path, const char *to), (path, to))
DEFINE(OF_BASE(RENAME), int, renameat, (int base, const char *path, int other, const char *to),
       (base, path, other, to))
DEFINE(OF_PATH(CREATE), int, mkdir, (const char *path, mode_t mode), (path, mode))
DEFINE(OF_BASE(CREATE), int, mkdirat, (int base, const char *path, mode_t mode), (base, path, mode))
DEFINE(OF_PATH(REMOVE), int, unlink, (const char *path), (path))
DEFINE(OF_BASE(REMOVE), int, unlinkat, (int base, const char *path, int flags), (base, path, flags))
DEFINE(OF_PATH(REMOVE), int, rmdir, (const char *path), (path))
DEFINE(OF_NETWORK(SEND), ssize_t, send, (int handle, const void *bytes, size_t size, int flags),
       (handle, bytes, size, flags))
DEFINE(OF_NETWORK(SEND), ssize_t, sendmsg, (int handle, const struct msghdr *message, int flags),
       (handle, message, flags))
DEFINE(OF_NETWORK(RECEIVE), ssize_t, recv, (int handle, void *bytes, size_t size, int flags),
       (handle, bytes, size, flags))
DEFINE(OF_NETWORK(CONNECT), int, connect, (int handle, const struct sockaddr *address, socklen_t size),
       (handle, address, size))

#define DEFINE_OPEN(name, base, base_declaration, base_argument)                                          \
    SLOT(name);                                                                                           \
    int name(base_declaration const char *path, int flags, ...)                                           \
    {                                                                                                     \
        va_list rest;                                                                                     \
        va_start(rest, flags);                                                                            \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                         \
        va_end(rest);                                                                                     \
        int changes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);                     \
        if (changes && is_path_of_ours(base, path) && count_one(CREATE))                                  \
            return -1;                                                                                    \
        return REAL(name)(base_argument path, flags, mode);                                               \
    }
DEFINE_OPEN(open, AT_FDCWD, , )
DEFINE_OPEN(open64, AT_FDCWD, , )
DEFINE_OPEN(openat, base, int base WITH, base WITH)
DEFINE_OPEN(openat64, base, int base WITH, base WITH)
