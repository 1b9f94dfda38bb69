//! The kernel's error numbers that Byway looks at, as the kernel returns them: negative.
//!
//! Not here: messages; the data path hands the number on unchanged.

/// The result of a raw system call: a count or address, or a negative error number.
pub type Ret = isize;

pub const EPERM: Ret = -1;
pub const ENOENT: Ret = -2;
pub const EINTR: Ret = -4;
pub const EBADF: Ret = -9;
pub const EAGAIN: Ret = -11;
pub const ESRCH: Ret = -3;
pub const EACCES: Ret = -13;
pub const EFAULT: Ret = -14;
pub const EBUSY: Ret = -16;
pub const EINVAL: Ret = -22;
pub const EMFILE: Ret = -24;
pub const EPIPE: Ret = -32;
pub const ENOSYS: Ret = -38;
pub const ETIMEDOUT: Ret = -110;
pub const ENOPROTOOPT: Ret = -92;
pub const EINPROGRESS: Ret = -115;
pub const ECONNRESET: Ret = -104;
pub const EOPNOTSUPP: Ret = -95;

/// Whether a raw result is an error.
#[inline]
pub fn failed(r: Ret) -> bool {
    (-4095..0).contains(&r)
}
