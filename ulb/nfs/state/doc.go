// Package state is what NFSv4 clients hold at a server: who they are, until when their
// leases run, which files they have open, which byte ranges they have locked, and what
// of it survives a restart.
//
// Both minor versions share it. How a client makes itself known and how its requests
// are sequenced differs, and is the business of packages nfs40 and nfs41; what a client
// is, and what it may hold beside others, is here.
//
// One mutex guards every change. Under it there is no input or output and no wait, and no
// callback but those that say so, which do neither: Identity.Follow, and Companion's Active and
// Busy. What has to be closed, written or called is handed back by the method that
// found it necessary, and done after the mutex was let go. Each method that does so
// says so.
package state
