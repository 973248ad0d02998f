//! Where bytes wait: the buffer pool, the queue of chunks for slow receivers, kernel pipes for splice(2).

pub(crate) mod chunk_queue;
pub(crate) mod pool;
pub(crate) mod splice_pipes;
