package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/nfsrdmad/nfsrdmad/server/config"
)

// A durationFlag is a duration in the form of the configuration file: with a unit, and within a
// range.
type durationFlag struct {
	value       *time.Duration
	least, most time.Duration
}

// durationVar defines a flag for a duration. usual is its default; least and most are its limits.
func durationVar(f *pflag.FlagSet, value *time.Duration, name string, usual, least, most time.Duration, usage string) {
	*value = usual
	f.Var(&durationFlag{value, least, most}, name, usage)
}

func (d *durationFlag) String() string {
	if d.value == nil {
		return ""
	}
	return config.Duration(*d.value).String()
}

func (d *durationFlag) Type() string { return "duration" }

func (d *durationFlag) Set(s string) error {
	var v config.Duration
	if err := v.UnmarshalText([]byte(s)); err != nil {
		return err
	}
	if v := time.Duration(v); v < d.least || v > d.most {
		return fmt.Errorf("use a value from %v to %v", config.Duration(d.least), config.Duration(d.most))
	}
	*d.value = time.Duration(v)
	return nil
}
