package main

import (
	"errors"

	"github.com/nfsrdmad/nfsrdmad/rdmacm/iwarp"
)

// A crcFlag says whether CRCs are asked for when connecting.
type crcFlag struct{ mode *iwarp.CRCMode }

func (crcFlag) Type() string { return "on|off" }

func (f crcFlag) String() string { return "" }

func (f crcFlag) Set(s string) error {
	switch s {
	case "on":
		*f.mode = iwarp.CRCOn
	case "off":
		*f.mode = iwarp.CRCOff
	default:
		return errors.New("neither on nor off")
	}
	return nil
}
