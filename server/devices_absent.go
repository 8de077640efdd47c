//go:build !verbs

package server

import "errors"

// devicesBuilt: this program can reach RDMA devices.
const devicesBuilt = false

// ErrNotBuilt: the program was built without cgo.
var ErrNotBuilt = errors.New(`this program was built without RDMA devices: use nfsrdmad-verbs, or build with "make build VERBS=1"; --rdma-provider iwarp needs no device`)

func openVerbs(*Server) (rdmaDevice, error) { return nil, ErrNotBuilt }
