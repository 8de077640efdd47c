package config

// A foreignOption is an option of exports(5), of Linux's server, that nfsrdmad does not have.
type foreignOption struct {
	name string
	// refused is true if an export without the option would be served in a way that the option prevents.
	refused bool
	// why says why there is no such option here, and after a colon what the user does about it.
	why string
}

// linuxOptions has the options of exports(5) that differ from those here.
var linuxOptions = []foreignOption{
	{name: "no_all_squash", why: "this is how every export without all_squash is served: leave the option out"},
	{name: "no_subtree_check", why: "there are no subtree checks here: leave the option out"},
	{name: "subtree_check", why: "file handles are signed for one export (docs/security.md#handles): leave the option out"},
	{name: "wdelay", why: "the daemon does not delay writes: leave the option out"},
	{name: "no_wdelay", why: "the daemon does not delay writes: leave the option out"},
	{name: "hide", why: "this is how every export without crossmnt is served: leave the option out"},
	{name: "nohide", why: "give the outer export the option crossmnt, which serves what is mounted below it, and leave nohide out"},
	{name: "no_acl", why: "ACLs are not shown to clients: leave the option out"},
	{name: "acl", why: "ACLs are not shown to clients: leave the option out"},
	{name: "secure_locks", why: "locks need the same rights as files: leave the option out"},
	{name: "auth_nlm", why: "locks need the same rights as files: leave the option out"},
	{name: "insecure_locks", why: "locks need the same rights as files: leave the option out"},
	{name: "no_auth_nlm", why: "locks need the same rights as files: leave the option out"},
	{name: "no_pnfs", why: "there is no pNFS here: leave the option out"},
	{name: "pnfs", why: "there is no pNFS here, and clients use NFS without it: leave the option out"},
	{name: "security_label", why: "security labels are not served: leave the option out"},
	{name: "mountpoint", refused: true, why: "the daemon does not check that a file system is mounted, but a directory inside of it is missing while it is not: export such a directory instead"},
	{name: "mp", refused: true, why: "the daemon does not check that a file system is mounted, but a directory inside of it is missing while it is not: export such a directory instead"},
	{name: "refer", refused: true, why: "the daemon does not refer clients to other servers: mount the other server on the clients"},
	{name: "replicas", refused: true, why: "the daemon names no replicas: leave the option out"},
	{name: "xprtsec", refused: true, why: "TLS is not served: use sec=krb5p to encrypt"},
	{name: "fsid", why: "file systems are told apart by their UUIDs, and only fsid=0 has a meaning: leave the option out"},
}

// linuxOption returns the option of exports(5) with the name, or nil.
func linuxOption(name string) *foreignOption {
	for i := range linuxOptions {
		if linuxOptions[i].name == name {
			return &linuxOptions[i]
		}
	}
	return nil
}
