//go:build !verbs

package providers

import "errors"

// verbsBuilt is false: this program was built without the tag verbs, so it cannot use RDMA devices.
const verbsBuilt = false

var errNotBuilt = errors.New(`this program was built without RDMA devices: use nfsrdmad-verbs, or build with "make build VERBS=1"; --rdma-provider iwarp needs no device`)

func verbsReady() error { return errNotBuilt }

func openVerbs(*Config) (Provider, error) { return nil, errNotBuilt }
