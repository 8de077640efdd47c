package main

import (
	"fmt"
	"strings"
)

// notes are the annotations before a definition, declaration or procedure.
type notes struct {
	// goName is the Go name instead of the derived one: /*@go NFSStat3*/.
	// On a program it is a prefix for its constants.
	goName string
	// ddp: the upper-layer binding lets this opaque item be placed directly
	// (RFC 8166 §3.4.2): /*@ddp*/.
	ddp bool
	// open: values of this enum that have no name are let through, because
	// a union arm or the caller deals with them: /*@open*/.
	open bool
	// external: the Go type of this typedef of an array with a bound is written by
	// hand, with Decode and Encode; what follows tells its sizes: /*@external*/.
	external bool
	// iterate: an iterator although the array has a bound: /*@iterate*/.
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
