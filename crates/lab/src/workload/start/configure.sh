#!/bin/sh
# A configure script as autoconf makes them, written by hand: it asks the compiler by small programs, and takes the
# answers apart with sed, grep and tr. The lab measures what its processes cost; nobody uses the answers.
# Invariant: the output is the same whenever it runs on one machine; the files of a probe (conftest*) are removed.
#     usage: sh configure.sh HEADERS FUNCTIONS      of each list so many, the first ones
headers="stdio.h stdlib.h string.h unistd.h fcntl.h errno.h signal.h sys/types.h sys/stat.h sys/time.h sys/wait.h
  sys/mman.h sys/select.h poll.h pthread.h dlfcn.h dirent.h limits.h locale.h math.h netdb.h netinet/in.h pwd.h grp.h
  sched.h semaphore.h setjmp.h stdarg.h stdbool.h stdint.h strings.h sys/ioctl.h sys/socket.h sys/uio.h sys/un.h
  termios.h time.h utime.h wchar.h nosuchheader.h"
functions="fork vfork memmove strchr strdup strerror select poll mmap munmap gettimeofday clock_gettime setlocale
  getcwd dup2 socketpair sigaction pipe2 posix_spawn nosuchfunction"
CC=${CC:-cc}
trap 'rm -f conftest conftest.*' EXIT

say() { printf '%s\n' "$*"; }
# A name as the preprocessor takes it: HAVE_SYS_STAT_H.
defined() { say "HAVE_$1" | sed 'y%abcdefghijklmnopqrstuvwxyz./-%ABCDEFGHIJKLMNOPQRSTUVWXYZ___%'; }
answer() { # what was asked, status
  result=no; [ "$2" = 0 ] && result=yes
  say "checking for $1... $result"
  [ "$result" = no ] || { name=$(defined "$1"); found="$found $name"; }
}
first() { # how many, words
  n=$1; shift
  for word; do [ "$n" -gt 0 ] || break; say "$word"; n=$(expr "$n" - 1); done
}

found=
machine=$(uname -m); system=$(uname -s | tr 'A-Z' 'a-z')
say "checking build system type... $machine-$system"
# `test -x` and `set --` are the shell's own; autoconf runs programs for the rest.
for program in grep sed tr expr; do
  path=$(command -v $program) && say "checking for a $program... $(basename "$path")"
done
printf 'int main(void) { return 0; }\n' >conftest.c
if $CC -o conftest conftest.c 2>conftest.err && ./conftest; then say "checking whether the compiler works... yes"
else say "checking whether the compiler works... no"; cat conftest.err; exit 77; fi
$CC -E conftest.c 2>conftest.err | grep 'int main' >/dev/null && say "checking how to run the preprocessor... $CC -E"

for header in $(first "$1" $headers); do
  printf '#include <%s>\nint x;\n' "$header" >conftest.c
  $CC -c conftest.c -o conftest.o 2>conftest.err; status=$?
  grep -v '^ *+' conftest.err | grep -c 'error' >/dev/null
  answer "$header" $status
done
for function in $(first "$2" $functions); do
  printf 'char %s(void);\nint main(void) { return %s() != 0; }\n' "$function" "$function" >conftest.c
  $CC -w -fno-builtin -o conftest conftest.c 2>conftest.err; answer "$function" $?
done
# What config.status does: a template, and a line of sed for each answer.
script=$(for name in $found; do say "s/^#undef $name\$/#define $name 1/"; done)
for name in $found HAVE_NOTHING; do say "#undef $name"; done | sed "$script" | grep -c define
