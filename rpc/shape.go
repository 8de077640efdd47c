package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A Shape is the result of one walk over a call's arguments (RFC 8166 §6). All sizes are in
// bytes.
type Shape struct {
	// Words is the largest size of the results without eligible payload. Payload is the largest
	// eligible payload of all results together.
	Words, Payload int
	// Once: the call changes something. If the client repeats it because it does not know whether
	// the server executed it, the server answers it as the first time, without executing it
	// again.
	Once bool
	// Prefix is the size of the arguments up to the content of the first Item.
	Prefix int
	// Object is the argument that names the object of the call, such as a file handle. It aliases
	// the arguments. It is nil if there is none or if it cannot be read.
	Object []byte

	start  int
	placed []Placed // items that the walk has not reached
}

// Item steps over an argument of variable length that may be placed directly: over its count, and
// over its content unless that travels beside the message.
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

// walk fills in s from the arguments. placed are the items that travel beside the message.
func (p *Procedure) walk(args *xdr.Decoder, placed []Placed, s *Shape) {
	*s = Shape{Words: p.MaxResults, Once: p.Once, start: args.Position(), placed: placed}
	if p.Walk != nil {
		p.Walk(args, s)
	}
}

// Shape walks the arguments of a call. placed are the items that travel beside the message;
// eligible reports whether the Binding allows each of them there.
func (p *Procedure) Shape(args xdr.Decoder, placed []Placed) (s Shape, eligible bool) {
	eligible = p.Measure(&args, placed, &s)
	return s, eligible
}

// Measure is Shape with the caller's memory, so that it allocates nothing.
func (p *Procedure) Measure(args *xdr.Decoder, placed []Placed, s *Shape) (eligible bool) {
	p.walk(args, placed, s)
	return len(s.placed) == 0
}
