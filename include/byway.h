/*
 * Byway for C and C++: pipes and FIFOs whose bytes travel through shared memory.
 *
 * Every end has a real descriptor of the kernel's: the end of the stream, a broken pipe and sleep are as on any pipe.
 * byway(3) tells the whole; docs/native.md how it works.
 *
 * Results: functions that return int or ssize_t return -1 on failure, those that return a pointer NULL; then errno says
 * what happened, and byway_error() what to try. Times (`ms`) are milliseconds: BYWAY_FOREVER waits, 0 does not.
 * A handle may be used by one thread at a time. Handles and bytes are the caller's until they are given back.
 */
#ifndef BYWAY_H
#define BYWAY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BYWAY_VERSION "0.1.0"
#define BYWAY_FOREVER (-1)
/* The longest record that travels in the stream itself; longer ones go through a buffer of their own. Bytes. */
#define BYWAY_INLINE 4088

typedef struct byway_reader byway_reader;
typedef struct byway_writer byway_writer;
typedef struct byway_grant byway_grant;
typedef struct byway_queue byway_queue;

/* What to try after the last call of this thread that failed. */
const char *byway_error(void);
/* Why bytes of this process take the kernel's way; NULL if they go through shared memory. */
const char *byway_why_not_carried(void);

/* --- ends, byway_pipe(3) --- */

int byway_pipe(byway_reader **reader, byway_writer **writer);
/* The descriptor is the library's from now on, also if this fails. */
int byway_reader_from_fd(int fd, byway_reader **reader);
int byway_writer_from_fd(int fd, byway_writer **writer);
/* Another handle of the same end, for another thread or a child. ENOTSUP: two receivers of a pipe that has no shared memory. */
int byway_reader_clone(byway_reader *of, byway_reader **reader);
int byway_writer_clone(byway_writer *of, byway_writer **writer);
/* For poll(2) and its kind: it tells the truth after a call has failed with EAGAIN, until the next call. */
int byway_reader_fd(byway_reader *reader);
int byway_writer_fd(byway_writer *writer);
int byway_reader_is_carried(byway_reader *reader);
int byway_writer_is_carried(byway_writer *writer);
void byway_reader_close(byway_reader *reader);
void byway_writer_close(byway_writer *writer);
/* The pipe becomes the kernel's for good, for a program that knows nothing of this library. The handle is gone. */
int byway_reader_into_fd(byway_reader *reader);
int byway_writer_into_fd(byway_writer *writer);

/* --- two pipes as one, byway_duplex(3) --- */

typedef struct byway_end {
  byway_reader *reader;
  byway_writer *writer;
} byway_end;

/* What is written to the writer of one is read from the reader of the other, both ways. */
int byway_duplex(byway_end *here, byway_end *there);
/* Closes both, or the one that is not NULL. */
void byway_end_close(byway_end *end);

/* --- FIFOs by name, byway_fifo(3) --- */

/* An open waits for the other side, `ms` at most (ETIMEDOUT). With 0 a reader is there at once, and its first read waits for
   a writer; a writer is there if somebody reads (EAGAIN). */
int byway_fifo_reader(const char *name, int ms, byway_reader **reader);
int byway_fifo_writer(const char *name, int ms, byway_writer **writer);
int byway_fifo_remove(const char *name);

/* --- bytes, byway_read(3) --- */

/* 0: the end of the stream. */
ssize_t byway_read(byway_reader *reader, void *buffer, size_t size, int ms);
ssize_t byway_write(byway_writer *writer, const void *bytes, size_t size, int ms);

/* --- records, byway_send(3): 1: a record, 0: the end, -1: an error --- */

int byway_send(byway_writer *writer, const void *bytes, size_t size, int ms);
int byway_receive(byway_reader *reader, void *buffer, size_t size, size_t *length, int ms);

/* --- buffers that travel without a copy, byway_reserve(3) --- */

byway_grant *byway_reserve(size_t size);
/* Writable until the grant is shared, sent, cloned or sliced. */
void *byway_grant_data(byway_grant *grant);
size_t byway_grant_size(byway_grant *grant);
/* Ends the filling, with the first `size` bytes. If it fails the grant is as it was. */
int byway_grant_share(byway_grant *grant, size_t size);
byway_grant *byway_grant_clone(byway_grant *grant);
byway_grant *byway_grant_slice(byway_grant *grant, size_t from, size_t size);
void byway_grant_release(byway_grant *grant);
/* The caller keeps the handle, and releases it when it likes. */
int byway_send_grant(byway_writer *writer, byway_grant *grant, int ms);
/* Any record, whatever its length; a short one is copied. */
int byway_receive_grant(byway_reader *reader, byway_grant **grant, int ms);

/* --- many ends at once, as with kqueue(2): byway_kevent(3). Numbers and bits are FreeBSD's. --- */

typedef struct byway_event {
  uint64_t ident; /* a descriptor; of a user event or timer, a number of the caller's */
  int16_t filter;
  uint16_t flags;
  uint32_t fflags;
  int64_t data; /* bytes to read, bytes of room, expirations, an error's number; of a timer to add, its time */
  void *udata;
} byway_event;

#define BYWAY_EVFILT_READ (-1)
#define BYWAY_EVFILT_WRITE (-2)
#define BYWAY_EVFILT_TIMER (-7)
#define BYWAY_EVFILT_USER (-11)

#define BYWAY_EV_ADD 0x0001
#define BYWAY_EV_DELETE 0x0002
#define BYWAY_EV_ENABLE 0x0004
#define BYWAY_EV_DISABLE 0x0008
#define BYWAY_EV_ONESHOT 0x0010
#define BYWAY_EV_CLEAR 0x0020
#define BYWAY_EV_DISPATCH 0x0080
#define BYWAY_EV_ERROR 0x4000
#define BYWAY_EV_EOF 0x8000

/* Of a user event: trigger it. Of a timer: its time is in these; milliseconds without. */
#define BYWAY_NOTE_TRIGGER 0x01000000u
#define BYWAY_NOTE_USECONDS 0x00000004u
#define BYWAY_NOTE_NSECONDS 0x00000008u

#define BYWAY_EV_SET(event, ident_, filter_, flags_, fflags_, data_, udata_)                                           \
  do {                                                                                                                 \
    byway_event *e_ = (event);                                                                                         \
    e_->ident = (uint64_t)(ident_);                                                                                    \
    e_->filter = (int16_t)(filter_);                                                                                   \
    e_->flags = (uint16_t)(flags_);                                                                                    \
    e_->fflags = (fflags_);                                                                                            \
    e_->data = (data_);                                                                                                \
    e_->udata = (udata_);                                                                                              \
  } while (0)

int byway_kqueue(byway_queue **queue);
/* Watches an end of this library's; its entry's ident is the number of its descriptor. */
int byway_queue_reader(byway_queue *queue, byway_reader *reader, uint16_t flags, void *udata);
int byway_queue_writer(byway_queue *queue, byway_writer *writer, uint16_t flags, void *udata);
/* Makes changes, then waits for events; how many there are, at most 64 by one call. Several threads may use one queue. */
int byway_kevent(byway_queue *queue, const byway_event *changes, int nchanges, byway_event *events, int nevents,
                 int ms);
/* For poll(2) and its kind: readable when an event waits. */
int byway_queue_fd(byway_queue *queue);
void byway_queue_close(byway_queue *queue);

#ifdef __cplusplus
}
#endif
#endif
