"""What the Python tests share: servers, stores, stubs."""
