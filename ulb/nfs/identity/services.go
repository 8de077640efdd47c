package identity

import (
	"errors"
	"strings"
)

// An nssService is a service that nsswitch.conf(5) names for a database.
type nssService struct {
	name string
	// last is true if the services after this one are not asked when it answers "no such entry".
	last bool
}

// ownServices are the services that read files and the running system of this machine. They never
// count as unavailable: if one does not answer, the machine has no data for it.
var ownServices = []string{"files", "systemd", "compat", "db", "altfiles", "extrausers"}

// servicesOf returns the services that a file in the format of nsswitch.conf names for the
// first of databases that it contains. ok is false if it contains none of them.
func servicesOf(path string, databases ...string) (services []nssService, ok bool, err error) {
	lines := make(map[string]string)
	err = eachLine(path, func(line string) bool {
		line, _, _ = strings.Cut(line, "#")
		if database, of, ok := strings.Cut(line, ":"); ok {
			lines[strings.TrimSpace(database)] = of
		}
		return true
	})
	if err != nil {
		return nil, false, err
	}
	for _, database := range databases {
		if line, ok := lines[database]; ok {
			return parseServices(line), true, nil
		}
	}
	return nil, false, nil
}

// parseServices reads a line such as "files sss [!UNAVAIL=return] ldap".
func parseServices(line string) (services []nssService) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '[' {
			actions, rest, _ := strings.Cut(line[1:], "]")
			line = rest
			for _, action := range strings.Fields(strings.ToUpper(actions)) {
				if n := len(services); n > 0 && (action == "NOTFOUND=RETURN" || action == "!UNAVAIL=RETURN" || action == "!TRYAGAIN=RETURN") {
					services[n-1].last = true
				}
			}
			continue
		}
		end := strings.IndexAny(line, " \t[")
		if end < 0 {
			end = len(line)
		}
		services = append(services, nssService{name: line[:end]})
		line = line[end:]
	}
	return services
}

// errUnavailable: a service that may know the key does not answer.
var errUnavailable = errors.New("does not answer, or is not set up; see that it runs, or take it out of " + switchFile)

// switchFile is the path of the file that lists the services of this machine.
const switchFile = "/etc/nsswitch.conf"
