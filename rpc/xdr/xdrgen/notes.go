package main

import (
	"fmt"
	"strings"
)

// notes are the annotations before a definition, declaration or procedure.
type notes struct {
	// goName is the Go name to use instead of the derived one: /*@go NFSStat3*/. For a program, it
	// is a prefix of the names of its constants.
	goName string
	// ddp is true if this opaque item is eligible for direct data placement (RFC 8166 §3.4.2):
	// /*@ddp*/.
	ddp bool
	// open is true if the decoder accepts values of this enum that have no name, because a union
	// arm or the caller handles them: /*@open*/.
	open bool
	// external is true if the Go type of this typedef, with Decode and Encode, is written by hand.
	// The typedef must be an array with a bound, from which the sizes follow: /*@external*/.
	external bool
	// iterate is true if the array is decoded as an iterator although it has a bound: /*@iterate*/.
	iterate bool
}

func (n *notes) add(text string) error {
	name, value, _ := strings.Cut(strings.TrimSpace(text), " ")
	value = strings.TrimSpace(value)
	if (name == "go") != (value != "") {
		return fmt.Errorf("annotation @%s: only @go takes a value, and needs one", name)
	}
	switch name {
	case "go":
		n.goName = value
	case "ddp":
		n.ddp = true
	case "open":
		n.open = true
	case "external":
		n.external = true
	case "iterate":
		n.iterate = true
	default:
		return fmt.Errorf("unknown annotation @%s", name)
	}
	return nil
}
