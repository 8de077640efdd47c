package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdmad/nfsrdmad/ulb/nfs/identity"
)

// NFS has the settings of the protocol NFS.
type NFS struct {
	// Versions lists the versions served. Empty means all of NFSVersions.
	Versions []Choice `toml:"versions"`
	// LeaseTime is the lease time of NFSv4 clients: a client keeps its state if it calls at least
	// once in this time. GraceTime is the time after a start in which NFSv4 clients can claim the
	// state that they held before, and get no new state.
	LeaseTime Duration `toml:"lease_time"`
	GraceTime Duration `toml:"grace_time"`
	// Owners is the form of users and groups in NFSv4 replies: "numbers" or "names". Callers with
	// Kerberos always get names. A name has the form NAME@Domain.
	Owners Choice `toml:"owners"`
	Domain string `toml:"domain"`
}

// NFSVersions has all versions of NFS, in the form of mount's option vers=.
var NFSVersions = []string{"3", "4.0", "4.1", "4.2"}

// Serves reports whether the daemon serves a version, which is one of NFSVersions.
func (c *Config) Serves(version string) bool { return slices.Contains(c.NFS.Versions, Choice(version)) }

// Default and limits of the lease time. The longest grace time is longestLease, too. The shortest
// lease time is so long that a client does not lose its locks if its network fails for a moment.
const (
	usualLease    = 90 * time.Second
	shortestLease = 5 * time.Second
	longestLease  = time.Hour
)

// nfsSettings has the keys of the table [nfs].
var nfsSettings = []setting{
	{key: "nfs.versions", usual: "`[" + strings.Join(quotedAll(NFSVersions), ", ") + "]`", check: checkVersions,
		meaning: "the versions of NFS that the daemon serves, in the form of mount's option `vers=`. If a mount names no version, the client uses the highest version that both it and the daemon support"},
	{key: "nfs.lease_time", usual: shownDefault(Duration(usualLease)), check: func(c *Config) error {
		return within(c, "nfs.lease_time", &c.NFS.LeaseTime, Duration(usualLease), Duration(shortestLease), Duration(longestLease))
	}, meaning: "the lease time of NFSv4: how long the opens and locks of a client are safe if the daemon gets no request from it. After that the daemon keeps them until another client asks for a conflicting open or lock, but for a day at most"},
	{key: "nfs.grace_time", usual: "as `lease_time`", check: func(c *Config) error {
		return within(c, "nfs.grace_time", &c.NFS.GraceTime, c.NFS.LeaseTime, Duration(time.Second), Duration(longestLease))
	}, meaning: "how long after a start NFSv4 clients may claim the opens and locks that they held before, while no other client can get them. It ends early when all these clients are back"},
	choice("nfs.owners", func(c *Config) *Choice { return &c.NFS.Owners }, []string{OwnersNumbers, OwnersNames}, "",
		"the form in which NFSv4 sends users and groups: `numbers`, which Linux's clients accept without any configuration, or `names`, such as `user@domain`. Callers with Kerberos always get names. From clients the daemon accepts both forms"),
	{key: "nfs.domain", usual: "that of the machine's name, or `" + identity.DefaultDomain + "`", check: checkDomain,
		meaning: "the part of names after the `@`. Clients must have the same domain (`Domain` in `/etc/idmapd.conf`)"},
}

// Values of NFS.Owners.
const (
	OwnersNumbers = "numbers"
	OwnersNames   = "names"
)

// checkDomain rejects a domain that has a space, an '@', a ':' or a character other than
// printable ASCII, or is longer than 255 bytes.
func checkDomain(c *Config) error {
	if d := c.NFS.Domain; strings.ContainsFunc(d, func(r rune) bool { return r <= ' ' || r == '@' || r == ':' || r > '~' }) || len(d) > 255 {
		return badValue("nfs.domain", strconv.Quote(d), "give a name such as \"example.org\"")
	}
	return nil
}

func quotedAll(words []string) (all []string) {
	for _, w := range words {
		all = append(all, strconv.Quote(w))
	}
	return all
}

func checkVersions(c *Config) error {
	const key = "nfs.versions"
	v := &c.NFS.Versions
	if len(*v) == 0 && !c.Says(key) {
		for _, word := range NFSVersions {
			*v = append(*v, Choice(word))
		}
	}
	for _, word := range *v {
		if !slices.Contains(NFSVersions, string(word)) {
			return badValue(key, strconv.Quote(string(word)), "use some of "+strings.Join(NFSVersions, ", "))
		}
	}
	if len(*v) == 0 {
		return badValue(key, "no version at all", "name one at least, such as "+strconv.Quote(NFSVersions[0]))
	}
	return nil
}
