package memoryd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const defaultTarget = "localhost:50051"

// readEnvironment sets what the variables MEMORYD_… say and no option has said.
func (s *settings) readEnvironment() error {
	s.target = os.Getenv("MEMORYD_TARGET")
	if s.target == "" {
		s.target = defaultTarget
	}
	if named := os.Getenv("MEMORYD_TOKEN_FILE"); named != "" && s.token == nil {
		path, err := filepath.Abs(named)
		if err != nil {
			return fmt.Errorf("memoryd: MEMORYD_TOKEN_FILE: %w", err)
		}
		s.token = func(context.Context) (string, error) {
			token, err := os.ReadFile(path)
			if err != nil {
				return "", fmt.Errorf("memoryd: MEMORYD_TOKEN_FILE: %w", err)
			}
			return strings.TrimSpace(string(token)), nil
		}
	}
	// A server has no TLS on UNIX sockets.
	named := os.Getenv("MEMORYD_CA_FILE")
	if named == "" || s.tls != nil || strings.HasPrefix(s.target, "unix:") {
		return nil
	}
	config, err := tlsOfFiles(named, os.Getenv("MEMORYD_CLIENT_CERT_FILE"),
		os.Getenv("MEMORYD_CLIENT_KEY_FILE"))
	s.tls = config
	return err
}

func tlsOfFiles(trusted, certificate, key string) (*tls.Config, error) {
	roots, err := os.ReadFile(trusted)
	if err != nil {
		return nil, fmt.Errorf("memoryd: MEMORYD_CA_FILE: %w", err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("memoryd: MEMORYD_CA_FILE: %s has no certificate in PEM", trusted)
	}
	if certificate == "" {
		return config, nil
	}
	// Read at every handshake, so that the certificate may be rotated.
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("memoryd: MEMORYD_CLIENT_CERT_FILE, MEMORYD_CLIENT_KEY_FILE: %w", err)
		}
		return &pair, nil
	}
	_, err = config.GetClientCertificate(nil)
	return config, err
}
