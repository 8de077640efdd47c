package krb5realm

import (
	"fmt"
	"os"
	"strings"
)

// writeFiles writes the configuration files of the KDC and of its clients and services.
func (r *Realm) writeFiles() error {
	if err := r.writeConf(r.Conf, ETypes); err != nil {
		return err
	}
	return os.WriteFile(r.path("kdc.conf"), fmt.Appendf(nil, `[kdcdefaults]
	kdc_listen = %[2]s
	kdc_tcp_listen = %[2]s
[realms]
	%[1]s = {
		database_name = %[3]s
		key_stash_file = %[4]s
		acl_file = %[5]s
		max_life = %[6]ds
		master_key_type = aes256-cts-hmac-sha1-96
		supported_enctypes = %[7]s
		default_principal_flags = +preauth
	}
[logging]
	kdc = FILE:%[8]s
	default = FILE:%[8]s
`, r.Name, r.KDC(), r.path("principal"), r.path("stash"), r.path("kadm5.acl"), int(r.Lifetime.Seconds()),
		salted(ETypes), r.path("kdc.log")), 0o644)
}

// salted returns a list of encryption types in the format of the KDC's tools.
func salted(etypes []string) string { return strings.Join(etypes, ":normal ") + ":normal" }

// ClientConf writes a krb5.conf for clients and servers of the realm, to a file with the given path.
// These clients and servers use only the given encryption types.
func (r *Realm) ClientConf(path string, etypes ...string) error { return r.writeConf(path, etypes) }

// writeConf writes a krb5.conf that uses no DNS look-ups.
func (r *Realm) writeConf(path string, etypes []string) error {
	var realms, domains strings.Builder
	for _, k := range append([]*Realm{r}, r.known...) {
		fmt.Fprintf(&realms, "\t%s = {\n\t\tkdc = %s\n\t}\n", k.Name, k.KDC())
		fmt.Fprintf(&domains, "\t.%[1]s = %[2]s\n\t%[1]s = %[2]s\n", k.Domain(), k.Name)
	}
	return os.WriteFile(path, fmt.Appendf(nil, `[libdefaults]
	default_realm = %[1]s
	dns_lookup_realm = false
	dns_lookup_kdc = false
	dns_canonicalize_hostname = false
	rdns = false
	qualify_shortname = ""
	ticket_lifetime = %[2]ds
	permitted_enctypes = %[3]s
	default_tkt_enctypes = %[3]s
	default_tgs_enctypes = %[3]s
[realms]
%[4]s[domain_realm]
%[5]s`, r.Name, int(r.Lifetime.Seconds()), strings.Join(etypes, " "), realms.String(), domains.String()), 0o644)
}
