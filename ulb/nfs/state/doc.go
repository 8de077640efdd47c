// Package state keeps the state of NFSv4 clients: their identities, their leases, the files that
// they have open, the byte ranges that they have locked, and the part of it that survives a
// restart.
//
// All minor versions share it, and the hosts that lock by NFSv3 (Host). They differ in how a client introduces itself
// and how its requests are sequenced: packages nfs40, nfs41 and nlm do that. This package decides which clients exist, and
// which opens and locks may exist side by side.
//
// One mutex guards every change. The code that holds it does no input or output, does not wait, and
// calls no function of a file system, of a protocol package or of the server: it stores such a call in
// its guard, which makes it after it has released the mutex. A function that needs the mutex has a
// guard or a piecewise as its receiver or as an argument, or it is a method of a type that the mutex
// guards (clients, origin, file, opens, openFiles), or Client.hasOpen.
//
// Manager.Ask, in gate.go, decides about every access to a file.
package state
