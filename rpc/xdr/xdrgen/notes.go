package main

import (
	"fmt"
	"strings"
)

// notes are the annotations before a definition, declaration or procedure.
type notes struct {
	// goName replaces the derived Go name: /*@go NFSStat3*/. On a program it is a prefix
	// for its constants.
	goName string
	// ddp: the upper-layer binding lets this opaque item be placed directly
	// (RFC 8166 §3.4.2): /*@ddp*/.
	ddp bool
	// open: the decoder accepts values of this enum without a name, because a union arm
	// or the caller handles them: /*@open*/.
	open bool
	// external: the Go type of this typedef is written by hand, with Decode and Encode.
	// The typedef is an array with a bound, and gives the sizes: /*@external*/.
	external bool
	// iterate: the array is decoded as an iterator although it has a bound: /*@iterate*/.
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
