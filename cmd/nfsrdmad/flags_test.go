package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/client/bench"
)

// bench refuses flags with which it cannot measure, and names the flag.
func TestFlagsOfBenchAreJudged(t *testing.T) {
	good := bench.Config{NFS: "3", Workload: "read", Depth: 1, Connections: 1, Duration: time.Second}
	if err := checkBench(&good, 4<<20, 4<<20, false); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		size, fileSize int64
		change         func(c *bench.Config)
	}{
		"--nfs":                         {1, 1, func(c *bench.Config) { c.NFS = "4.0" }},
		"--workload":                    {1, 1, func(c *bench.Config) { c.Workload = "reads" }},
		"--no-attributes":               {1, 1, func(c *bench.Config) { c.NoAttributes = true }},
		"--size 0":                      {0, 1, nil},
		"--size 4194305":                {4<<20 + 1, 8 << 20, nil},
		"--file-size 1":                 {2, 1, nil},
		"--depth and --connections are": {1, 1, func(c *bench.Config) { c.Depth = 0 }},
		"--connections are from 1":      {1, 1, func(c *bench.Config) { c.Connections = 1025 }},
		"--duration":                    {1, 1, func(c *bench.Config) { c.Duration = 0 }},
		"--ops":                         {1, 1, func(c *bench.Config) { c.Ops = -1 }},
	} {
		cfg := good
		if c.change != nil {
			c.change(&cfg)
		}
		if err := checkBench(&cfg, c.size, c.fileSize, false); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A number of operations ends a measurement by itself, unless a duration is given as well.
	for timed, want := range map[bool]time.Duration{false: 0, true: time.Second} {
		cfg := good
		cfg.Ops = 10
		if err := checkBench(&cfg, 1, 1, timed); err != nil || cfg.Duration != want {
			t.Errorf("timed: %v: %v, for %v", timed, err, cfg.Duration)
		}
	}
}

// Flags about Kerberos that contradict each other are refused before anything is dialled.
func TestFlagsOfSecurityAreJudged(t *testing.T) {
	for want, s := range map[string]securityFlags{
		"--sec":                         {flavor: "krb6"},
		"belong to --sec krb5":          {flavor: "sys", keytab: "/k"},
		"and --server-principal belong": {flavor: "sys", server: "nfs@x"},
		"--principal chooses a key of":  {flavor: "krb5", principal: "nfs/client"},
	} {
		if _, err := s.security(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
	if s, err := (&securityFlags{flavor: "sys"}).security(); s != nil || err != nil {
		t.Errorf("sys: %v, %v", s, err)
	}
}
