"""Everything that talks to the GPU without knowing a codec: kernel loading, streams, memory."""
