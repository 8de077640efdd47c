package state

// A Verdict is the result of a request. Each protocol translates it in one table, which has an entry for
// every Verdict: nfs4 (of which the minor versions differ) and nlm.
type Verdict uint8

// Verdicts.
const (
	// About requests in general.

	Granted Verdict = iota
	// Invalid: the arguments contradict each other, or a range of bytes ends beyond the largest offset.
	Invalid
	// TryLater: the reason passes soon. The server does not keep the request: the client repeats it.
	TryLater
	// AfterDisk: the request has to wait for what its Later says: the disk of the records, the end of a Hold, or
	// the end of a host. It has granted and released nothing. But a LOCK with LockArgs.Wait may already be in the queue for its lock.
	AfterDisk
	// WouldWait: the caller must not wait, and the request would have to: a Lock, an Unlock or a CloseOpen for the file
	// system, because of local claims; an Open or a HostShare that denies writing, for changes under way. It has granted and
	// released nothing.
	WouldWait
	// Full: there is no room for more state, and the sweep cannot make any at present.
	Full
	// FullOfOwn: there is no room for more state, and the client itself holds most of it. To wait would not help.
	FullOfOwn
	// NotFound: no client has the name (ExchangeID), or the owner does not wait for the lock (LockArgs.IfWaits).
	NotFound

	// About opens, locks and the files that they are for.

	// OpenConflict: an open of the file has a deny mode that forbids the access, or an access that the new
	// deny mode forbids.
	OpenConflict
	// LockConflict: another owner has a lock in the range. The method also returns whose it is (Denied).
	LockConflict
	// Deadlock: the owners whose locks are in the way wait for this owner.
	Deadlock
	// NotOpenFor: the open does not allow the access.
	NotOpenFor
	// ReadOnly: the file system is read-only, and cannot lock for writing.
	ReadOnly
	// NoFile: the file no longer exists.
	NoFile
	// Broken: the file system failed.
	Broken
	// HoldsLocks: the lock-owner, or the lock of the stateid, still has locked ranges.
	HoldsLocks
	// HasStateID: the lock-owner has a stateid for this open, and has to use it (RFC 7530 §16.10.5).
	HasStateID

	// About stateids.

	// UnknownID: no state has this stateid, or not for this client, file or use.
	UnknownID
	// OldID: the state has a higher seqid by now.
	OldID
	// FormerID: the stateid is from before the server's restart.
	FormerID
	// ExpiredID: the state ended because the server removed the client of minor version 0 that held it.
	ExpiredID
	// RevokedID: the server took the state away (Revoke, Release), and the client has not acknowledged that.
	RevokedID

	// About clients, and about the grace period.

	// NoClient: no client has the client ID.
	NoClient
	// Gone: the server has removed the client since the request began.
	Gone
	// HoldsState: the client still has state or a session.
	HoldsState
	// NameTaken: a client with another principal uses the name.
	NameTaken
	// OtherVerifier and OtherPrincipal: the client of this name has another verifier, or another principal.
	OtherVerifier
	OtherPrincipal
	// InGracePeriod: the client can get no new state yet, because it, or another client, may still reclaim state.
	InGracePeriod
	// MayNotReclaim: the client has no state to reclaim, or the time for that is over.
	MayNotReclaim
	// NeverHeld: the client may reclaim state, but held none of this kind before the restart.
	NeverHeld
	// AlreadyComplete: the client has already said that it has reclaimed everything.
	AlreadyComplete

	// Verdicts is the number of Verdicts.
	Verdicts = iota
)
