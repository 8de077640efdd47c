package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A Shape is the result of one walk over a call's arguments (RFC 8166 §6). All sizes are in
// bytes.
type Shape struct {
	// Words is the largest size of the results without eligible payload. Payload is the largest
	// size of the eligible payload of all results together.
	Words, Payload int
	// Once is true if the call changes something. If the client repeats such a call, the server
	// does not execute it again, but sends the results of the first execution.
	Once bool
	// Prefix is the size of the arguments up to the content of the first Item.
	Prefix int
	// Object is the argument that names the object of the call, such as a file handle. It aliases
	// the arguments. It is nil if there is none or if it cannot be read.
	Object []byte

	start  int
	placed []Placed // the items in Read chunks that the walk has not reached
}

// Item skips an opaque argument of variable length that is eligible for direct data placement. It
// reads the count, and skips the content if the content is in the message.
func (s *Shape) Item(args *xdr.Decoder) {
	n := args.Uint32()
	if s.Prefix == 0 {
		s.Prefix = args.Position() - s.start
	}
	if len(s.placed) > 0 && args.Err() == nil && int64(s.placed[0].Position) == int64(args.Position()) {
		s.placed = s.placed[1:]
		args.Jump(int(n))
		return
	}
	if int64(n) > int64(args.Len()) {
		args.Fail(xdr.ErrShort)
		return
	}
	args.FixedOpaque(int(n))
}

// walk fills in s from the arguments. placed are the items that travel outside the message, in Read
// chunks.
func (p *Procedure) walk(args *xdr.Decoder, placed []Placed, s *Shape) {
	*s = Shape{Words: p.MaxResults, Once: p.Once, start: args.Position(), placed: placed}
	if p.Walk != nil {
		p.Walk(args, s)
	}
}

// Shape walks over the arguments of a call. placed are the items that travel outside the message,
// in Read chunks. eligible is true if the Binding allows that for all of them.
func (p *Procedure) Shape(args xdr.Decoder, placed []Placed) (s Shape, eligible bool) {
	eligible = p.Measure(&args, placed, &s)
	return s, eligible
}

// Measure is like Shape, but stores its result in *s and advances args, so that it allocates
// nothing.
func (p *Procedure) Measure(args *xdr.Decoder, placed []Placed, s *Shape) (eligible bool) {
	p.walk(args, placed, s)
	return len(s.placed) == 0
}
