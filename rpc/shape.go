package rpc

import "github.com/nfsrdmad/nfsrdmad/rpc/xdr"

// A Shape is what one walk over a call's arguments tells of the call (RFC 8166
// §6). All sizes are in bytes.
type Shape struct {
	// Words is the largest that the results can be without eligible payload;
	// Payload is the largest eligible payload of all results together.
	Words, Payload int
	// Once: the call changes something. If it comes again, because its client does
	// not know whether it was executed, it is not executed again, and gets the
	// answer of the first.
	Once bool
	// Prefix is how long the arguments are up to the content of the first Item.
	Prefix int
	// Object is the argument that names what the call is about, such as a file
	// handle: it aliases the arguments. nil: there is none, or it cannot be read.
	Object []byte

	start  int
	placed []Placed // not met yet
}

// Item steps over an argument of variable length that the binding lets be placed
// directly: its count, and its content unless that travels beside the message.
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

// walk fills in s from the arguments at args. placed are the items that travel
// beside the message.
func (p *Procedure) walk(args *xdr.Decoder, placed []Placed, s *Shape) {
	*s = Shape{Words: p.MaxResults, Once: p.Once, start: args.Position(), placed: placed}
	if p.Walk != nil {
		p.Walk(args, s)
	}
}

// Shape walks the arguments of a call of which placed travels beside the message.
// eligible says whether all of that is where the binding lets it be.
func (p *Procedure) Shape(args xdr.Decoder, placed []Placed) (s Shape, eligible bool) {
	eligible = p.Measure(&args, placed, &s)
	return s, eligible
}

// Measure is Shape with memory of the caller's, so that nothing is allocated.
func (p *Procedure) Measure(args *xdr.Decoder, placed []Placed, s *Shape) (eligible bool) {
	p.walk(args, placed, s)
	return len(s.placed) == 0
}
