//! The flows that every node ships: notarise, finalise, resolve, cash, IOU, bond against payment, oracle.
