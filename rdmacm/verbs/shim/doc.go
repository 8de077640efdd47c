// Package shim implements rdmacm/verbs/device with librdmacm and libibverbs. It needs cgo and
// the build tag verbs. Load opens the libraries at run time, so that one program runs on
// machines with and without them.
package shim
