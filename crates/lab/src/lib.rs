//! The laboratory: namespaces, traffic and a collector around a running router.
