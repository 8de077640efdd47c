package state

import "fmt"

var verdictNames = [Verdicts]string{
	Granted:         "Granted",
	Invalid:         "Invalid",
	TryLater:        "TryLater",
	AfterDisk:       "AfterDisk",
	WouldWait:       "WouldWait",
	Full:            "Full",
	FullOfOwn:       "FullOfOwn",
	NotFound:        "NotFound",
	OpenConflict:    "OpenConflict",
	LockConflict:    "LockConflict",
	Deadlock:        "Deadlock",
	NotOpenFor:      "NotOpenFor",
	ReadOnly:        "ReadOnly",
	NoFile:          "NoFile",
	Broken:          "Broken",
	HoldsLocks:      "HoldsLocks",
	HasStateID:      "HasStateID",
	UnknownID:       "UnknownID",
	OldID:           "OldID",
	FormerID:        "FormerID",
	ExpiredID:       "ExpiredID",
	RevokedID:       "RevokedID",
	NoClient:        "NoClient",
	Gone:            "Gone",
	HoldsState:      "HoldsState",
	NameTaken:       "NameTaken",
	OtherVerifier:   "OtherVerifier",
	OtherPrincipal:  "OtherPrincipal",
	InGracePeriod:   "InGracePeriod",
	MayNotReclaim:   "MayNotReclaim",
	NeverHeld:       "NeverHeld",
	AlreadyComplete: "AlreadyComplete",
}

// String names the Verdict in messages of tests.
func (v Verdict) String() string {
	if v < Verdicts {
		return verdictNames[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}
