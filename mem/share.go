package mem

// A Request asks a Share for one block. The zero Request with Size and Granted
// set is ready for use; it may be reused after Granted was called.
type Request struct {
	// Size is how many bytes are needed, at least 1.
	Size int
	// Granted is called exactly once, with a Buffer of Size bytes and one
	// reference, or with an error (ErrTooLarge, ErrClosed). It may be called
	// before Get returns, and from the goroutine of whoever released the
	// memory: it must not block, and may post, release or Get again.
	Granted func(r *Request, b *Buffer, err error)
	// Context is the caller's own.
	Context any

	queued // the pool's bookkeeping
}
